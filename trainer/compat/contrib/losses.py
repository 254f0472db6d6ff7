"""tf.contrib.losses: the losses of tf.losses, with predictions before labels."""

import functools

import tensorflow as tf

from trainer.compat.contrib import argument_order

_losses = tf.compat.v1.losses
_predictions_first = functools.partial(argument_order.predictions_first, module=__name__)

absolute_difference = _predictions_first(_losses.absolute_difference)
log_loss = _predictions_first(_losses.log_loss)
mean_squared_error = _predictions_first(_losses.mean_squared_error)
sigmoid_cross_entropy = _predictions_first(_losses.sigmoid_cross_entropy)
softmax_cross_entropy = _predictions_first(_losses.softmax_cross_entropy)
sparse_softmax_cross_entropy = _predictions_first(_losses.sparse_softmax_cross_entropy)
