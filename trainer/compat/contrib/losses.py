"""tf.contrib.losses: the losses of tf.losses, with predictions before labels."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_losses = tf.compat.v1.losses


def _predictions_first(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
  """Returns a loss of tf.losses with its second argument, the predictions, before the labels."""
  labels, predictions, *others = inspect.signature(function).parameters.values()
  signature = inspect.Signature([predictions, labels, *others])

  @functools.wraps(function)
  def loss(*args: Any, **kwargs: Any) -> tf.Tensor:
    return function(**signature.bind(*args, **kwargs).arguments)

  loss.__signature__ = signature
  loss.__module__ = __name__
  return loss


absolute_difference = _predictions_first(_losses.absolute_difference)
log_loss = _predictions_first(_losses.log_loss)
mean_squared_error = _predictions_first(_losses.mean_squared_error)
sigmoid_cross_entropy = _predictions_first(_losses.sigmoid_cross_entropy)
softmax_cross_entropy = _predictions_first(_losses.softmax_cross_entropy)
sparse_softmax_cross_entropy = _predictions_first(_losses.sparse_softmax_cross_entropy)
