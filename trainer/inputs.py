"""Input: calls an input_fn, checks what comes back before anything is compiled, and cuts it into steps.

An element of every dataset that leaves this file is a tuple, `(features,)` or `(features, labels)`, of nests of dense tensors whose first axis is the
batch of one core. Training takes the elements in turn, one for each replica. Evaluation and prediction take *groups*: `(element, rows)` with one
more axis in front, one entry for each replica, and rows (int64 [replicas]) telling how many examples of each entry are real; the tail of a set is
padded so that every shape is static.
"""

import contextlib
import functools
import inspect
import os

import tensorflow as tf
from absl import logging

from trainer import errors, seeds, spec, tensorflow_behavior, tensorflow_internals
from trainer.outputs import decodable

_seeds = seeds.InputSeeds()

# What an AUTOTUNE stage's parallel calls begin with, if the host has as many cores: tensorflow/core/data/dataset_utils.cc.
_FIRST_PARALLEL_CALLS = 16


def call(input_fn, params, batch_size, seed, kind, input_context=None, start=0):
  """Calls an input_fn.

  Args:
    input_fn: `input_fn(params)`, also with `input_context` and `start`.
    params: dict, of which the input_fn gets a copy with "batch_size".
    batch_size: int for params["batch_size"], or None to leave it out.
    seed: int; the random numbers that the dataset draws come from it.
    kind: "train", "eval" or "predict", for messages.
    input_context: a tf.distribute.InputContext, given if input_fn takes it; if it does not, the pipelines of several hosts share out its batches.

    start: how many examples of the training data, over all pipelines, were seen before. An input_fn that takes `start` begins there at once; of one
      that does not, so many are read and passed over.

  Returns:
    A tf.data.Dataset of tuples, (features,) or (features, labels).

  Raises:
    SettingError: input_fn is not callable.
    SpecError: it returned something else than a dataset of features or of (features, labels).
    InputError: it raised.
  """
  if not callable(input_fn):
    raise errors.SettingError(f"The {kind} input_fn must be callable; got {input_fn!r}. In gin: run.{kind}_input_fn = @my_data.input_fn.")
  name = f"{kind} input_fn {spec.name_of(input_fn)}"
  arguments = {}
  parameters = inspect.signature(input_fn).parameters
  if "params" in parameters:
    arguments["params"] = dict(params) if batch_size is None else dict(params, batch_size=batch_size)
  if "input_context" in parameters:
    arguments["input_context"] = input_context or tf.distribute.InputContext()
  if "start" in parameters:
    arguments["start"] = start
  try:
    with _seeds.set(input_fn, seed):  # from which Dataset.shuffle and its like draw when the input_fn gives no seed
      dataset = input_fn(**arguments)
  except errors.OctetError:
    raise
  except Exception as error:
    raise errors.InputError(f"The {name} raised {type(error).__name__}: {error}") from error
  tensorflow_behavior.check()  # an input_fn may import a module that changes it
  if not isinstance(dataset, tf.data.Dataset):
    raise errors.SpecError(f"The {name} must return a tf.data.Dataset of features or of (features, labels); it returned {_described(dataset)}.")
  said = dataset
  if input_context is not None and input_context.num_input_pipelines > 1 and "input_context" not in parameters:
    # Each of the pipelines gives the same batches; they take turns. What one step sees is then what it would see with one pipeline.
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
  if start and "start" not in parameters:
    passed_over = start // (batch_size * (input_context.num_input_pipelines if input_context else 1))
    logging.info("The %s has no argument `start`: it is read from its beginning, and %d batches, seen before, are passed over.", name, passed_over)
    dataset = dataset.skip(passed_over)
  element = dataset.element_spec
  if not isinstance(element, tuple):
    return decodable.keep_mark(said, dataset.map(lambda features: (features,)))
  if len(element) == 2 and isinstance(element[1], tensorflow_internals.NoneTensorSpec):
    return decodable.keep_mark(said, dataset.map(lambda features, labels: (features,)))
  if len(element) != 2:
    raise errors.SpecError(f"The {name} must return a dataset of features or of (features, labels); its elements are tuples of {len(element)}.")
  return decodable.keep_mark(said, dataset)


@contextlib.contextmanager
def reading(input_fn, kind, failed_in_input=lambda: None):
  """Says of what goes wrong in reading a dataset whose input_fn it is.

  Args:
    failed_in_input: tells whether an error came from the dataset, and not from what was done with its batches; None if it cannot tell.

  Raises:
    InputError: an operation of the dataset failed inside.
  """
  try:
    yield
  except tf.errors.OutOfRangeError:
    raise
  except tf.errors.OpError as error:
    if failed_in_input() is False or (failed_in_input() is None and "IteratorGetNext" not in error.message):
      raise
    what = error.message.split("[[", maxsplit=1)[0].strip().removeprefix("{{function_node").strip()
    lines = [line.strip() for line in what.splitlines() if line.strip()]
    raise errors.InputError(f"The {kind} input_fn {spec.name_of(input_fn)} failed while it was read: {' '.join(lines)[:500]}") from error


def _described(value):
  if value is None:
    return "None (is a return statement missing?)"
  if isinstance(value, tuple | list | dict) or tf.is_tensor(value):
    return f"{type(value).__name__}: tensors have to come from a dataset, as in tf.data.Dataset.from_tensors(...)"
  return f"{type(value).__name__}"


def check_shapes(dataset, batch_size, kind, static=True):
  """Every device needs static shapes; training also in the batch, which evaluation and prediction pad.

  Args:
    dataset: what `call` returns.
    batch_size: params["batch_size"].
    kind: "train", "eval" or "predict".
    static: False where shapes may differ from batch to batch.

  Raises:
    InputError: names the features or labels that cannot be used and says what to change.
  """
  for path, leaf in named_leaves(dataset.element_spec):
    if not isinstance(leaf, tf.TensorSpec):
      raise errors.InputError(f"{path} ({kind}) is a {type(leaf).__name__}: make it dense, as with Dataset.padded_batch or to_tensor.")
    shape = leaf.shape
    if shape.rank is None or shape.rank == 0:
      raise errors.InputError(f"{path} ({kind}) has shape {shape}: the first axis must be the batch.")
    sizes = shape.as_list()
    if static and kind == "train" and sizes[0] is None:
      raise errors.InputError(f"{path} has shape {_shown(sizes)}: batch with drop_remainder=True")
    if sizes[0] not in (None, batch_size):
      raise errors.InputError(f'{path} ({kind}) has shape {_shown(sizes)}: the batch must be params["batch_size"], which is {batch_size}.')
    if static and None in sizes[1:]:
      raise errors.InputError(f"{path} ({kind}) has shape {_shown(sizes)}: pad or resize so that all axes but the batch are known.")


def _shown(sizes):
  return f"({', '.join(map(str, sizes))})"


def named_leaves(element, roots=("features", "labels")):
  """[(path, leaf)] of an element: `features["image"]`, `labels`."""
  leaves = []
  for root, part in zip(roots, element, strict=False):
    for path, leaf in _paths(part, root):
      leaves.append((path, leaf))
  return leaves


def _paths(part, path):
  if part is None or isinstance(part, tensorflow_internals.NoneTensorSpec):
    return
  if isinstance(part, dict):
    for key in sorted(part):  # as tf.nest has them
      yield from _paths(part[key], f'{path}["{key}"]')
  elif isinstance(part, tuple) and hasattr(part, "_fields"):
    for key, value in zip(part._fields, part, strict=True):
      yield from _paths(value, f"{path}.{key}")
  elif isinstance(part, tuple | list):
    for index, value in enumerate(part):
      yield from _paths(value, f"{path}[{index}]")
  else:
    yield path, part


def cut(dataset, cores):
  """A dataset of per-core batches from one of host batches, each of which is cut into as many as there are cores, in order."""
  def pieces(*element):
    return tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(lambda tensor: tf.stack(tf.split(tensor, cores)), element))
  return dataset if cores == 1 else dataset.flat_map(pieces)


def grouped(dataset, per_core, replicas, broadcast=False):
  """A dataset of groups (see the module) from one of per-core batches of at most `per_core` examples.

  With `broadcast`, every replica gets a batch, the same one; it counts once.
  """
  if replicas == 1 or broadcast:
    groups = dataset.map(_group_of_one(per_core, replicas))
  else:
    groups = dataset.map(_padded_batch(per_core)).batch(replicas).map(_padded_group(replicas))
  return untuned(groups.prefetch(1))


def read_ahead(dataset):
  """The dataset, its next elements made while one is trained on. Where tf.data tunes, it adds this by itself."""
  is_read_ahead = tensorflow_internals.ends_with_prefetch(dataset)
  return untuned(dataset if is_read_ahead else dataset.prefetch(tf.data.AUTOTUNE))


def untuned(dataset):
  """The dataset without tf.data's tuning, on hosts where its AUTOTUNE stages begin with a call for each core, and nothing is left to tune.

  Tuning has a thread for each iterator, which looks at it after 10 ms, 20 ms and so on up to a minute. One that is let go of waits for that thread,
  and this for the end of its sleep, for in half of the cases it does not hear that it shall stop: an evaluation of 0.8 s took 1.3. Untuned
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
  """What `grouped` maps with is kept, and traced once for each kind of element. A function made for a map would be traced in every evaluation."""
  return functools.cache(lambda *sizes: tf.autograph.experimental.do_not_convert(tf.function(make(*sizes), autograph=False)))


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
    copies = tf.nest.map_structure(lambda tensor: tensor[tf.newaxis] if replicas == 1 else tf.stack([tensor] * replicas), element)
    return copies, _padded(rows[tf.newaxis], replicas)
  return group


def _pad_batch(element, per_core):
  rows = tf.shape(tf.nest.flatten(element)[0], out_type=tf.int64)[0]
  return _padded(element, per_core, f"A batch has more examples than the per-core batch size, {per_core}"), rows


def _padded(nest, size, if_more=""):
  """Zeros (empty strings) after the entries of the first axes, so that there are `size` of them, statically; if_more says of more what is wrong."""
  leaves = tf.nest.flatten(nest)
  if all(leaf.shape.as_list()[0] == size for leaf in leaves):
    return nest
  missing = size - tf.shape(leaves[0])[0]

  # One condition for all, and no condition for the assertion: each is a function to make ready in every evaluation.
  def with_zeros():
    with tf.control_dependencies([tf.raw_ops.Assert(condition=missing > 0, data=[if_more])]):
      return [tf.concat([leaf, tf.zeros(tf.concat([[missing], tf.shape(leaf)[1:]], 0), leaf.dtype)], 0) for leaf in leaves]

  padded = tf.cond(tf.equal(missing, 0), lambda: leaves, with_zeros)
  return tf.nest.pack_sequence_as(nest, [tf.ensure_shape(leaf, [size, *leaf.shape.as_list()[1:]]) for leaf in padded])
