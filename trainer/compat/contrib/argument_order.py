"""Functions of tf.contrib that take predictions before labels, unlike tf.losses and tf.metrics."""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def predictions_first(function: Callable, module: str) -> Callable:
  """Returns a function of (labels, predictions, ...) with its first two arguments swapped.

  Args:
    module: the module of the new function.
  """
  labels, predictions, *others = inspect.signature(function).parameters.values()
  signature = inspect.Signature([predictions, labels, *others])

  @functools.wraps(function)
  def swapped(*args: Any, **kwargs: Any) -> Any:
    return function(**signature.bind(*args, **kwargs).arguments)

  swapped.__signature__ = signature  # type: ignore[attr-defined]
  swapped.__module__ = module
  return swapped
