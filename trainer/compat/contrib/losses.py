"""tf.contrib.losses: the losses of tf.losses, with predictions before labels."""

from typing import Any

import tensorflow as tf

_losses = tf.compat.v1.losses

add_loss = _losses.add_loss
compute_weighted_loss = _losses.compute_weighted_loss
get_losses = _losses.get_losses
get_regularization_losses = _losses.get_regularization_losses
get_total_loss = _losses.get_total_loss


def softmax_cross_entropy(
  logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: Any = 0, scope: Any = None
) -> tf.Tensor:
  """As tf.losses.softmax_cross_entropy(onehot_labels, logits)."""
  return _losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


def sparse_softmax_cross_entropy(
  logits: Any, labels: Any, weights: Any = 1.0, scope: Any = None
) -> tf.Tensor:
  """As tf.losses.sparse_softmax_cross_entropy(labels, logits)."""
  return _losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)


def sigmoid_cross_entropy(
  logits: Any,
  multi_class_labels: Any,
  weights: Any = 1.0,
  label_smoothing: Any = 0,
  scope: Any = None,
) -> tf.Tensor:
  """As tf.losses.sigmoid_cross_entropy(multi_class_labels, logits)."""
  return _losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


def mean_squared_error(
  predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None
) -> tf.Tensor:
  """As tf.losses.mean_squared_error(labels, predictions)."""
  return _losses.mean_squared_error(labels, predictions, weights, scope)


def absolute_difference(
  predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None
) -> tf.Tensor:
  """As tf.losses.absolute_difference(labels, predictions)."""
  return _losses.absolute_difference(labels, predictions, weights, scope)


def log_loss(
  predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: Any = None
) -> tf.Tensor:
  """As tf.losses.log_loss(labels, predictions)."""
  return _losses.log_loss(labels, predictions, weights, epsilon, scope)
