"""Cuts batches for the cores, groups them for evaluation and prediction, and reads ahead."""

import functools
import os

import tensorflow as tf

from trainer.internals import tensorflow_internals

# What an AUTOTUNE stage's parallel calls begin with, if the host has as many cores:
# tensorflow/core/data/dataset_utils.cc.
_FIRST_PARALLEL_CALLS = 16


def cut(dataset, cores):
  """A dataset of per-core batches from one of host batches, each of which is cut into as many
  as there are cores, in order.
  """

  def pieces(*element):
    return tf.data.Dataset.from_tensor_slices(
      tf.nest.map_structure(lambda tensor: tf.stack(tf.split(tensor, cores)), element)
    )

  return dataset if cores == 1 else dataset.flat_map(pieces)


def group(dataset, per_core, replicas, broadcast=False):
  """A dataset of groups (see the module) from one of per-core batches of at most `per_core`
  examples.

  With `broadcast`, every replica gets a batch, the same one; it counts once.
  """
  if replicas == 1 or broadcast:
    groups = dataset.map(_group_of_one(per_core, replicas))
  else:
    groups = dataset.map(_padded_batch(per_core)).batch(replicas).map(_padded_group(replicas))
  return without_tuning(groups.prefetch(1))


def read_ahead(dataset):
  """The dataset, its next elements made while one is trained on.

  Where tf.data tunes, it adds this by itself.
  """
  is_read_ahead = tensorflow_internals.ends_with_prefetch(dataset)
  return without_tuning(dataset if is_read_ahead else dataset.prefetch(tf.data.AUTOTUNE))


def without_tuning(dataset):
  """The dataset without tf.data's tuning, on hosts where its AUTOTUNE stages begin with a call for
  each core, and nothing is left to tune.

  Tuning has a thread for each iterator, which looks at it after 10 ms, 20 ms and so on up to a
  minute. One that is let go of waits for that thread, and this for the end of its sleep, for in
  half of the cases it does not hear that it shall stop: an evaluation of 0.8 s took 1.3. Untuned
  pipelines were also faster, by 4 to 14 %. What the dataset's own options say of tuning is kept to.
  """
  if len(_cores()) > _FIRST_PARALLEL_CALLS or dataset.options().autotune.enabled is not None:
    return dataset
  options = tf.data.Options()
  options.autotune.enabled = False
  return dataset.with_options(options)


def _cores():
  return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _traced_once(make):
  """What `group` maps with is kept, and traced once for each kind of element.

  A function made for a map would be traced in every evaluation.
  """
  return functools.cache(
    lambda *sizes: tf.autograph.experimental.do_not_convert(
      tf.function(make(*sizes), autograph=False)
    )
  )


@_traced_once
def _padded_batch(per_core):
  """From a batch to (the element, padded to `per_core` examples; how many of them are real)."""
  return lambda *element: _pad_batch(element, per_core)


@_traced_once
def _padded_group(replicas):
  """From the padded batches of some replicas, and their rows, to a group for all."""
  return lambda *group: _padded(group, replicas)


@_traced_once
def _group_of_one(per_core, replicas):
  """From a batch to a group in which every replica has it; only the first one's counts."""

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
  """Zeros (empty strings) after the entries of the first axes, so that there are `size` of
  them, statically; if_more says of more what is wrong.
  """
  leaves = tf.nest.flatten(nest)
  if all(leaf.shape.as_list()[0] == size for leaf in leaves):
    return nest
  missing = size - tf.shape(leaves[0])[0]

  # One condition for all, and no condition for the assertion: each is a function to make ready in
  # every evaluation.
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
