"""Batches of a data set that fits in memory.

    in_memory.batches(
        {"image": images}, labels, params["batch_size"], training=True, preprocess=scale_to_unit
    )

What is shuffled and batched are row numbers, a whole epoch in one operation; the rows are then
gathered and preprocessed a batch at a time. Both cost far less than handling examples one by one,
and an iterator's state, as a checkpoint has it, holds no more than one epoch's row numbers and the
batches that wait.
"""

import tensorflow as tf

# Autograph reads and rewrites the source of what is mapped, which takes longer than all else here;
# only a `preprocess` can need it.
_as_written = tf.autograph.experimental.do_not_convert
_autograph = tf.__internal__.autograph


def batches(features, labels, batch_size, *, training, preprocess=None, start=0):
  """A dataset over arrays.

  Args:
    features: dict of name → array (any dtype), the first axis that of the examples.
    labels: array with one entry an example.
    batch_size: examples in a batch.
    training: whether to shuffle and repeat without end, in batches that are all full; every epoch
      has an order of its own, and its examples all come before the next epoch's. Otherwise every
      example comes once, in order, and the last batch may be smaller.
    start: examples of the training data that come before the first one, as after a run that is
      continued; epochs are passed over at no cost.
    preprocess: function of a batch (features, labels) that returns what to make of it, in graph
      operations.

  Returns:
    A tf.data.Dataset of (features, labels). The order comes from the seed of tf.random.set_seed.
  """
  with tf.device("CPU"):  # not where a GPU would keep the whole set
    features = {name: tf.constant(array) for name, array in features.items()}
    labels = tf.constant(labels)
  if preprocess is not None:
    preprocess = _autograph.tf_convert(preprocess, _autograph.control_status_ctx())

  @_as_written
  def gather(rows):
    batch = (
      {name: tf.gather(tensor, rows) for name, tensor in features.items()},
      tf.gather(labels, rows),
    )
    return batch if preprocess is None else preprocess(*batch)

  # One function from row numbers to the finished batch: each hand-over between stages would cost a
  # wake-up of a thread.
  rows = row_numbers(labels.shape[0], batch_size, training=training, start=start)
  return rows.map(gather, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(
    tf.data.AUTOTUNE
  )


def row_numbers(count, batch_size, *, training, start=0):
  """A dataset of int64 [batch], the numbers of the rows of each batch; arguments as those of
  `batches`.
  """
  return (
    _shuffled_rows(count, batch_size, start)
    if training
    else tf.data.Dataset.range(count).batch(batch_size)
  )


def _shuffled_rows(count, batch_size, start):
  """An endless dataset of int64 [batch_size], the row numbers of epoch after epoch from the
  start-th on; a batch may lie in two epochs.
  """
  epochs, passed = divmod(start, count)

  @_as_written
  def cut(state, seed):
    left, passed = state
    order = tf.random.experimental.stateless_shuffle(
      tf.range(count, dtype=tf.int64), tf.stack([seed, 0])
    )
    order = tf.concat([left, order[passed:]], 0)
    whole = tf.shape(order)[0] // batch_size * batch_size
    return (order[whole:], tf.zeros_like(passed)), tf.reshape(order[:whole], [-1, batch_size])

  initial = tf.zeros([0], tf.int64), tf.constant(passed, tf.int64)
  rows = tf.data.Dataset.random().skip(epochs).scan(initial, cut).unbatch()
  # Which tf.data cannot see through unbatch.
  return rows.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
