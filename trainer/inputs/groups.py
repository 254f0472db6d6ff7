"""Cuts batches for the cores, groups them for evaluation and prediction, and reads ahead.

A group is a pair `(element, rows)`. Each tensor of the element has one more axis in front, with an
entry for each replica: [replicas, per-core batch, ...]. rows, int64 [replicas], says how many
examples of each entry are real. The others are padding, so that every shape is static even at the
end of a dataset.
"""

import functools
from typing import Any

import tensorflow as tf

from trainer.cli import processes
from trainer.internals import tensorflow_internals

# The parallel calls that an AUTOTUNE stage starts with, or the number of cores if that is smaller.
# Source: tensorflow/core/data/dataset_utils.cc.
_FIRST_PARALLEL_CALLS = 16


def cut(dataset: tf.data.Dataset, cores: int) -> tf.data.Dataset:
  """Cuts each batch of a dataset into equal parts, one for each core, in order.

  Args:
    dataset: host batches, of a size that `cores` divides.
    cores: number of cores.
  """

  def pieces(*element):
    return tf.data.Dataset.from_tensor_slices(
      tf.nest.map_structure(lambda tensor: tf.stack(tf.split(tensor, cores)), element)
    )

  return dataset if cores == 1 else dataset.flat_map(pieces)


def group(
  dataset: tf.data.Dataset, per_core: int, replicas: int, broadcast: bool = False
) -> tf.data.Dataset:
  """Puts per-core batches together to groups, see the module.

  Args:
    dataset: per-core batches of at most `per_core` examples.
    per_core: the per-core batch size.
    replicas: number of replicas.
    broadcast: whether every replica gets the same batch. It is real on replica 0 only, and counts
      once.
  """
  if replicas == 1 or broadcast:
    groups = dataset.map(_group_of_one(per_core, replicas))
  else:
    groups = dataset.map(_padded_batch(per_core)).batch(replicas).map(_padded_group(replicas))
  return without_tuning(groups.prefetch(1))


def core_spec(group_spec: Any) -> Any:
  """Returns the spec of one core's batch, of the spec of a group."""
  element, _ = group_spec
  return tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape[1:], leaf.dtype), element)


def read_ahead(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Prefetches: makes the next elements while the device works on one.

  tf.data's tuning would add this. Octet turns the tuning off, see `without_tuning`.
  """
  is_read_ahead = tensorflow_internals.ends_with_prefetch(dataset)
  return without_tuning(dataset if is_read_ahead else dataset.prefetch(tf.data.AUTOTUNE))


def without_tuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Turns tf.data's autotuning off on hosts with at most 16 cores.

  There an AUTOTUNE stage starts with a parallel call for each core, so nothing remains to tune.
  Tuning has a price: each iterator has a tuning thread, which sleeps 10 ms, then 20 ms, and so on
  up to a minute. Dropping an iterator blocks until its tuning thread wakes, up to a minute, because
  in about half of the cases the thread misses the request to stop. An evaluation of 0.8 s took 1.3
  s. Pipelines without tuning were also 4 to 14 % faster.

  If the dataset's own options turn tuning on or off, they stay.
  """
  if (
    processes.cpu_count() > _FIRST_PARALLEL_CALLS or dataset.options().autotune.enabled is not None
  ):
    return dataset
  options = tf.data.Options()
  options.autotune.enabled = False
  return dataset.with_options(options)


def _traced_once(make):
  """Makes a function for Dataset.map, with one trace for each kind of element.

  Dataset.map traces a new Python function every time, so every evaluation would pay for it.

  Args:
    make: function of sizes that returns the Python function to map with.

  Returns:
    A function of sizes that returns the tf.function. It keeps the tf.functions that it has made.
  """
  return functools.cache(
    lambda *sizes: tf.autograph.experimental.do_not_convert(
      tf.function(make(*sizes), autograph=False)
    )
  )


@_traced_once
def _padded_batch(per_core):
  """Maps a batch to (element, rows): padded to `per_core` examples, and the number of real ones."""
  return lambda *element: _pad_batch(element, per_core)


@_traced_once
def _padded_group(replicas):
  """Maps the (element, rows) of the first replicas to a group for all; the others get padding."""
  return lambda *group: _padded(group, replicas)


@_traced_once
def _group_of_one(per_core, replicas):
  """Maps a batch to a group with the same batch for every replica, real on replica 0 only."""

  def group(*element):
    element, rows = _pad_batch(element, per_core)
    copies = tf.nest.map_structure(
      lambda tensor: tensor[tf.newaxis] if replicas == 1 else tf.stack([tensor] * replicas), element
    )
    return copies, _padded(rows[tf.newaxis], replicas)

  return group


def _pad_batch(element, per_core):
  rows = tf.shape(tf.nest.flatten(element)[0], out_type=tf.int64)[0]
  return _padded(
    element, per_core, f"A batch has more examples than the per-core batch size, {per_core}"
  ), rows


def _padded(nest, size, if_more=""):
  """Pads the first axes with zeros (empty strings) to a static size.

  Args:
    nest: a nest of tensors whose first axes have the same size.
    size: the size to pad to.
    if_more: the error message if the first axes are larger.

  Returns:
    The padded nest.
  """
  leaves = tf.nest.flatten(nest)
  if all(leaf.shape.as_list()[0] == size for leaf in leaves):
    return nest
  missing = size - tf.shape(leaves[0])[0]

  # One tf.cond for all leaves, and a raw Assert instead of tf.debugging (which adds a tf.cond of
  # its own): TensorFlow instantiates the functions of each tf.cond anew in every evaluation.
  def with_zeros():
    with tf.control_dependencies([tf.raw_ops.Assert(condition=missing > 0, data=[if_more])]):
      return [
        tf.concat([leaf, tf.zeros(tf.concat([[missing], tf.shape(leaf)[1:]], 0), leaf.dtype)], 0)
        for leaf in leaves
      ]

  padded = tf.cond(tf.equal(missing, 0), lambda: leaves, with_zeros)
  return tf.nest.pack_sequence_as(
    nest, [tf.ensure_shape(leaf, [size, *leaf.shape.as_list()[1:]]) for leaf in padded]
  )
