"""Makes batches of a data set that fits in memory.

    in_memory.batches(
        {"image": images}, labels, params["batch_size"], training=True, preprocess=scale_to_unit
    )

One operation shuffles and batches the row numbers of a whole epoch. Another gathers and
preprocesses the rows of a batch together. This is much faster than work on single examples. The
state of an iterator, a part of a checkpoint, is small: the row numbers of an epoch and the waiting
batches.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

# AutoGraph would read and rewrite the source of every mapped function, which takes longer than
# everything else here. Only functions of users may need it: see `converted`.
as_written = tf.autograph.experimental.do_not_convert
_autograph = tf.__internal__.autograph

LARGEST_LABEL = 2**31 - 1  # labels are int32


def check_split(name: str, split: str, splits: Iterable[str]) -> None:
  """Raises SettingError if a set has no such split.

  Args:
    name: of the input pipeline's module; the gin setting is `NAME.input_fn.split`.
    split: the setting's value.
    splits: all splits of the set.
  """
  if split not in splits:
    raise errors.SettingError(
      f"{name}: there is no split {split!r}; expected one of {', '.join(splits)} (gin: "
      f"{name}.input_fn.split)."
    )


def batches(
  features: Mapping[str, Any],
  labels: Any,
  batch_size: int,
  *,
  training: bool,
  preprocess: Callable[[Any, Any], Any] | None = None,
  start: int = 0,
  sample_weight: Any = None,
) -> tf.data.Dataset:
  """Makes a dataset of arrays.

  Args:
    features: name → array [n, ...] of any dtype.
    labels: array [n, ...].
    batch_size: examples in a batch.
    training: True shuffles and repeats without end, in full batches. Each epoch has its own order,
      and ends before the next begins. False gives every example once and in order; the last batch
      may be smaller.
    preprocess: maps (features, labels) of a batch to others, in TensorFlow operations.
    start: training: number of examples to skip, since the training has seen them. Whole epochs cost
      nothing to skip.
    sample_weight: weights of the examples, an array [n]; None for none.

  Returns:
    A dataset of (features, labels), with weights as a third part if given. The order depends on the
    seed of tf.random.set_seed. Labels that are classes get the mark of `trainer.mark_labels`.
  """
  given_labels = np.asarray(labels)
  with tf.device("CPU"):  # otherwise a GPU would keep the whole set
    features = {name: tf.constant(array) for name, array in features.items()}
    labels = tf.constant(labels)
    weights = () if sample_weight is None else (tf.constant(sample_weight, tf.float32),)
  preprocess = converted(preprocess)

  @as_written
  def gather(rows):
    batch = (
      {name: tf.gather(tensor, rows) for name, tensor in features.items()},
      tf.gather(labels, rows),
    )
    batch = batch if preprocess is None else preprocess(*batch)
    return (*batch, *(tf.gather(tensor, rows) for tensor in weights))

  # One function does everything from row numbers to the finished batch: each further stage of the
  # pipeline would wake up a thread for each batch.
  rows = row_numbers(labels.shape[0], batch_size, training=training, start=start)
  dataset = rows.map(gather, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(
    tf.data.AUTOTUNE
  )
  is_classes = given_labels.ndim == 1 and given_labels.dtype.kind in "iu"
  return trainer.mark_labels(dataset, given_labels) if is_classes else dataset


def converted(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
  """Returns a user's function with AutoGraph, to call inside of code without it; None for None."""
  if function is None:
    return None
  return _autograph.tf_convert(function, _autograph.control_status_ctx())


def row_numbers(count: int, batch_size: int, *, training: bool, start: int = 0) -> tf.data.Dataset:
  """Makes a dataset of the row numbers of each batch (int64 [b]).

  Args:
    count: number of rows.
    batch_size: see `batches`.
    training: see `batches`.
    start: see `batches`.
  """
  return (
    _shuffled_rows(count, batch_size, start)
    if training
    else tf.data.Dataset.range(count).batch(batch_size)
  )


def _shuffled_rows(count, batch_size, start):
  """Makes an endless dataset of shuffled row numbers (int64 [batch_size]).

  Skips the first `start` rows. A batch may have rows of two epochs.
  """
  epochs, passed = divmod(start, count)
  cut = _cutter(count, batch_size)
  initial = tf.zeros([0], tf.int64), tf.constant(passed, tf.int64)
  rows = (
    tf.data.Dataset.random()
    .skip(epochs)
    .scan(initial, as_written(lambda state, seed: cut(*state, seed)))
    .unbatch()
  )
  # tf.data cannot see that the dataset is infinite, because unbatch hides it.
  return rows.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


@functools.cache
def _cutter(count, batch_size):
  """Makes the function of an epoch, traced once for all datasets.

  Dataset.scan traces a Python function anew for each dataset. It traces twice here, because the
  rows left from the epoch before, none at first, have no static shape.
  """
  scalar = tf.TensorSpec([], tf.int64)

  @functools.partial(
    tf.function, autograph=False, input_signature=[tf.TensorSpec([None], tf.int64), scalar, scalar]
  )
  def cut(left, passed, seed):
    order = tf.random.experimental.stateless_shuffle(
      tf.range(count, dtype=tf.int64), tf.stack([seed, 0])
    )
    order = tf.concat([left, order[passed:]], 0)
    whole = tf.shape(order)[0] // batch_size * batch_size
    return (order[whole:], tf.zeros_like(passed)), tf.reshape(order[:whole], [-1, batch_size])

  return cut
