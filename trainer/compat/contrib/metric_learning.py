"""tf.contrib.losses.metric_learning: losses that move embeddings with equal labels together."""

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def _distances(rows: tf.Tensor, squared: bool = False) -> tf.Tensor:
  """Returns [n, n]: the distance from each row to each row."""
  squares = tf.reduce_sum(tf.square(rows), 1, keepdims=True)
  found = squares + tf.transpose(squares) - 2.0 * tf.matmul(rows, rows, transpose_b=True)
  found = tf.maximum(found, 0.0)
  if not squared:
    # The gradient of a root at 0 is infinite.
    is_zero = found <= 0.0
    found = tf.where(is_zero, tf.zeros_like(found), tf.sqrt(tf.where(is_zero, 1.0, found)))
  return tf.linalg.set_diag(found, tf.zeros_like(found[:, 0]))


def _alike(labels: Any) -> tf.Tensor:
  """Returns [n, n]: whether two labels are equal."""
  labels = tf.reshape(tf.convert_to_tensor(labels), [-1, 1])
  return tf.equal(labels, tf.transpose(labels))


def _positives(alike: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  """Returns [n, n]: 1 for each pair of different rows with equal labels."""
  pairs = tf.cast(alike, dtype)
  return tf.linalg.set_diag(pairs, tf.zeros_like(pairs[:, 0]))


def contrastive_loss(
  labels: Any, embeddings_anchor: tf.Tensor, embeddings_positive: tf.Tensor, margin: float = 1.0
) -> tf.Tensor:
  """Loss of pairs: squared distances of positive pairs, squared shortfalls of negative pairs.

  Args:
    labels: [n], 1 for a positive pair, else 0.
    embeddings_anchor: [n, width].
    embeddings_positive: [n, width].
    margin: the least distance of negative pairs.

  See http://yann.lecun.com/exdb/publis/pdf/hadsell-chopra-lecun-06.pdf.
  """
  distances = tf.sqrt(tf.reduce_sum(tf.square(embeddings_anchor - embeddings_positive), 1))
  together = tf.cast(labels, distances.dtype)
  apart = tf.square(tf.maximum(margin - distances, 0.0))
  return tf.reduce_mean(together * tf.square(distances) + (1.0 - together) * apart)


def triplet_semihard_loss(labels: Any, embeddings: tf.Tensor, margin: float = 1.0) -> tf.Tensor:
  """Triplet loss with semi-hard negatives: mean of max(0, positive - negative distance + margin).

  For each positive pair, the negative is the nearest one farther away than the positive; without
  such a negative, the farthest of all.

  Args:
    labels: [n], integers.
    embeddings: [n, width], of length 1.
    margin: how much farther away a negative must be.

  See https://arxiv.org/abs/1503.03832.
  """
  distances, alike = _distances(embeddings, squared=True), _alike(labels)
  # [anchor, positive, negative]
  of_strangers = tf.expand_dims(distances, 1)
  is_farther = tf.expand_dims(~alike, 1) & (of_strangers > tf.expand_dims(distances, 2))
  largest = tf.reduce_max(distances, 1)[:, tf.newaxis, tf.newaxis]
  nearest = tf.reduce_min(tf.where(is_farther, of_strangers, largest), 2)
  least = tf.reduce_min(distances, 1, keepdims=True)
  farthest = tf.reduce_max(tf.where(alike, least, distances), 1, keepdims=True)
  strangers = tf.where(tf.reduce_any(is_farther, 2), nearest, farthest)
  positives = _positives(alike, distances.dtype)
  losses = tf.maximum((margin + distances - strangers) * positives, 0.0)
  return tf.math.truediv(tf.reduce_sum(losses), tf.reduce_sum(positives), "triplet_semihard_loss")


def npairs_loss(
  labels: Any,
  embeddings_anchor: tf.Tensor,
  embeddings_positive: tf.Tensor,
  reg_lambda: float = 0.002,
  print_losses: bool = False,
) -> tf.Tensor:
  """Cross entropy of the match between anchors and positives, plus a penalty on their lengths.

  Args:
    labels: [n], integers.
    embeddings_anchor: [n, width].
    embeddings_positive: [n, width], with the labels of the anchors.
    reg_lambda: the weight of the penalty.
    print_losses: whether each step prints both parts.
  """
  lengths = sum(
    tf.reduce_mean(tf.reduce_sum(tf.square(each), 1))
    for each in (embeddings_anchor, embeddings_positive)
  )
  penalty = tf.multiply(0.25 * reg_lambda, lengths, "l2loss")
  logits = tf.matmul(embeddings_anchor, embeddings_positive, transpose_b=True)
  alike = tf.cast(_alike(labels), logits.dtype)
  wanted = alike / tf.reduce_sum(alike, 1, keepdims=True)
  entropy = tf.reduce_mean(
    tf.nn.softmax_cross_entropy_with_logits(labels=wanted, logits=logits), name="xentropy"
  )
  if print_losses:
    with tf.control_dependencies([tf.print("xent loss:", entropy, "l2loss:", penalty)]):
      entropy = tf.identity(entropy)
  return penalty + entropy


def lifted_struct_loss(labels: Any, embeddings: tf.Tensor, margin: float = 1.0) -> tf.Tensor:
  """Loss of all negatives of both rows of a positive pair, in a smooth maximum.

  Args:
    labels: [n], integers.
    embeddings: [n, width], of any length.
    margin: the least distance of negatives.

  See https://arxiv.org/abs/1511.06452.
  """
  distances, alike = _distances(embeddings), _alike(labels)
  is_stranger = tf.cast(~alike, distances.dtype)
  near = margin - distances
  least = tf.reduce_min(near, 1, keepdims=True)
  nearest = tf.reduce_max((near - least) * is_stranger, 1, keepdims=True) + least
  largest = tf.maximum(nearest, tf.transpose(nearest))
  # [row, other row of the pair]: the sum over the row's strangers
  shifted = tf.exp(tf.expand_dims(near, 1) - tf.expand_dims(largest, 2))
  of_row = tf.reduce_sum(shifted * tf.expand_dims(is_stranger, 1), 2)
  pairs = largest + tf.math.log(of_row + tf.transpose(of_row)) + distances
  positives = _positives(alike, distances.dtype)
  losses = tf.square(tf.maximum(pairs * positives, 0.0))
  return tf.math.truediv(
    0.25 * tf.reduce_sum(losses), tf.reduce_sum(positives) / 2.0, "liftedstruct_loss"
  )
