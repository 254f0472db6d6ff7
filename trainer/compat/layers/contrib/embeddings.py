"""Embeddings of words: a vector for each, or their mean."""

from typing import Any

import tensorflow as tf

from trainer.compat.layers.contrib.common import model_variable

v1 = tf.compat.v1


def embed_sequence(
  ids: tf.Tensor,
  vocab_size: int | None = None,
  embed_dim: int | None = None,
  unique: bool = False,
  initializer: Any = None,
  regularizer: Any = None,
  trainable: bool = True,
  scope: Any = None,
  reuse: bool | None = None,
) -> tf.Tensor:
  """Returns embeddings [batch, length, embed_dim] of words [batch, length].

  Args:
    ids: int32 or int64.
    vocab_size, embed_dim: the shape of the variable; None with reuse.
    unique: ignored; TensorFlow 1 looked up each id once, with the same result.
    initializer, regularizer, trainable: of the variable.
    scope, reuse: as variable_scope takes them.

  Raises:
    ValueError: vocab_size or embed_dim is missing without reuse.
  """
  if not (reuse or (vocab_size and embed_dim)):
    raise ValueError(
      f"embed_sequence(vocab_size={vocab_size}, embed_dim={embed_dim}): expected both, or "
      "reuse=True."
    )
  with v1.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
    shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
    settings = {"initializer": initializer, "regularizer": regularizer, "trainable": trainable}
    return tf.nn.embedding_lookup(model_variable("embeddings", shape, **settings), ids)


def bow_encoder(
  ids: tf.Tensor | tf.SparseTensor,
  vocab_size: int,
  embed_dim: int,
  sparse_lookup: bool = True,
  initializer: Any = None,
  regularizer: Any = None,
  trainable: bool = True,
  scope: Any = None,
  reuse: bool | None = None,
) -> tf.Tensor:
  """Returns the mean embedding [batch, embed_dim] of words [batch, length].

  Args:
    ids: int32 or int64.
    vocab_size, embed_dim: the shape of the variable.
    sparse_lookup: whether dense ids of 0 are padding, which the mean leaves out. A row without
      words is word 0.
    initializer, regularizer, trainable: of the variable.
    scope, reuse: as variable_scope takes them.

  Raises:
    TypeError: sparse ids without sparse_lookup.
  """
  is_sparse = isinstance(ids, tf.SparseTensor)
  if is_sparse and not sparse_lookup:
    raise TypeError(f"bow_encoder(sparse_lookup=False): expected a dense tensor of ids, got {ids}.")
  with v1.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
    settings = {"initializer": initializer, "regularizer": regularizer, "trainable": trainable}
    embeddings = model_variable("embeddings", [vocab_size, embed_dim], **settings)
    if not sparse_lookup:
      return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), 1)
    words = ids if is_sparse else tf.sparse.from_dense(ids)
    return v1.nn.safe_embedding_lookup_sparse([embeddings], words, combiner="mean", default_id=0)
