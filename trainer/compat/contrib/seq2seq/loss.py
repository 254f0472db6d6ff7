"""The loss of sequences."""

from collections.abc import Callable

import tensorflow as tf


def sequence_loss(
  logits: tf.Tensor,
  targets: tf.Tensor,
  weights: tf.Tensor,
  average_across_timesteps: bool = True,
  average_across_batch: bool = True,
  softmax_loss_function: Callable | None = None,
  name: str | None = None,
) -> tf.Tensor:
  """Returns the weighted cross entropy of sequences.

  Args:
    logits: [batch, time, classes].
    targets: [batch, time], integers.
    weights: [batch, time].
    average_across_timesteps: whether to take the mean over time.
    average_across_batch: whether to take the mean over the batch.
    softmax_loss_function: function of (labels=, logits=) instead of cross entropy.
    name: the scope's name.

  Returns:
    A scalar, or [batch], [time] or [batch, time] without one or both means.

  Raises:
    ValueError: a tensor has another rank.
  """
  for what, tensor, rank in [
    ("Logits", logits, 3),
    ("Targets", targets, 2),
    ("Weights", weights, 2),
  ]:
    if len(tensor.shape) != rank:
      raise ValueError(f"{what} must be a {rank}D tensor; got shape {tensor.shape}.")
  with tf.name_scope(name or "sequence_loss"):
    loss_function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    rows = tf.reshape(logits, [-1, tf.shape(logits)[2]])
    found = loss_function(labels=tf.reshape(targets, [-1]), logits=rows)
    found = tf.reshape(found * tf.reshape(weights, [-1]), tf.shape(weights))
    axes = ([0] if average_across_batch else []) + ([1] if average_across_timesteps else [])
    if not axes:
      return found
    return tf.math.divide_no_nan(tf.reduce_sum(found, axes), tf.reduce_sum(weights, axes))


def hardmax(logits: tf.Tensor, name: str | None = None) -> tf.Tensor:
  """Returns 1 at the largest logit, 0 at all others."""
  with tf.name_scope(name or "Hardmax"):
    logits = tf.convert_to_tensor(logits)
    return tf.one_hot(tf.argmax(logits, -1), tf.shape(logits)[-1], dtype=logits.dtype)
