"""Writes SavedModels that serve on a CPU and need nothing but TensorFlow.

    <export_dir_base>/<number>/    a SavedModel; its signature "serving_default" takes the features
                                   by name. The number: see `outputs.numbered_exports`
    <export_dir_base>/<number>/assets.extra/octet.json
                                   its description, see `outputs.description`

Other signatures take encoded images or serialised Examples, see `outputs.signatures`. Every
signature takes any number of examples. An export is published only after another process, without
Octet, has run it with the same results, see `outputs.verification`.

The model is built anew, without a strategy and in float32, and gets the trained values by name. So
nothing of the training device remains in it.
"""

import contextlib
import dataclasses
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors, run_config, spec
from trainer.inputs import elements
from trainer.io import files, storage
from trainer.outputs import completion as completion_lib
from trainer.outputs import description, numbered_exports, tables
from trainer.outputs import signatures as signatures_lib
from trainer.programs import step, tpu_only
from trainer.settings import setting_types

v1 = tf.compat.v1


def build_raw_serving_input_receiver_fn(
  features: Mapping[str, tf.TensorSpec],
) -> Callable[[], tuple]:
  """Builds a serving_input_receiver_fn that takes the features themselves.

  Args:
    features: name → spec, with None for the batch.

  Returns:
    The function.
  """

  def serving_input_receiver_fn():
    placeholders = {
      name: v1.placeholder(spec.dtype, spec.shape, name) for name, spec in features.items()
    }
    return placeholders, placeholders

  return serving_input_receiver_fn


def free_batch(feature_spec: Any) -> Any:
  """Makes the batch axis of each spec unknown, and names it as it is served.

  Args:
    feature_spec: a nest of tf.TensorSpec.

  Returns:
    The same nest of new specs.
  """
  specs = [
    tf.TensorSpec([None, *leaf.shape.as_list()[1:]], leaf.dtype, _served_name(path))
    for path, leaf in elements.named_leaves((feature_spec,))
  ]
  return tf.nest.pack_sequence_as(feature_spec, specs)


def sample(
  dataset: tf.data.Dataset, kind: str, count: int
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
  """Reads the first examples of a dataset.

  Args:
    dataset: batches, see `trainer.inputs`.
    kind: "eval" or "predict", for the message.
    count: the most examples.

  Returns:
    (features by the names under which they are served, labels or None).

  Raises:
    InputError: the dataset is empty.
  """
  features: dict[str, list[np.ndarray]] = {}
  labels, rows = [], 0
  for element in dataset.as_numpy_iterator():
    for path, array in elements.named_leaves(element[:1]):
      features.setdefault(_served_name(path), []).append(array)
    if len(element) == 2 and isinstance(element[1], np.ndarray):
      labels.append(element[1])
    rows += len(array)
    if rows >= count:
      break
  if not rows:
    raise errors.InputError(
      f"The {kind} input_fn gives no batch, with which the export could be checked."
    )
  return {name: np.concatenate(parts)[:count] for name, parts in features.items()}, np.concatenate(
    labels
  )[:count] if labels else None


def _served_name(path):
  """Returns the name under which a leaf is served.

  `image` for `features["image"]`, `pair_0` for `features["pair"][0]`, `features` for `features`.
  """
  name = ""
  for key, index in re.findall(r'\["([^"]*)"\]|\[(\d+)\]', path):
    name += f"_{index}" if index else f"/{key}"
  return name.strip("/_") or path


def save(
  model_fn: spec.ModelFn,
  *,
  params: Mapping[str, Any],
  config: run_config.RunConfig,
  give_values: Callable[[step.Program], None],
  feature_spec: Any,
  export_dir_base: str,
  serving_input_receiver_fn: Callable | None = None,
  assets_extra: Mapping[str, str] | None = None,
  clock: Callable[[], float] = time.time,
  completion: completion_lib.Completion | None = None,
) -> str:
  """Writes a SavedModel.

  Args:
    model_fn: the model_fn.
    params: its params, without "batch_size".
    config: the run's configuration. Its precision is replaced by float32.
    give_values: function of the Program, after a trace of prediction. It assigns the trained values
      to the variables.
    feature_spec: nest of tf.TensorSpec: the features, unless there is a serving_input_receiver_fn.
    export_dir_base: the folder for the new folder, which is named by a number.
    serving_input_receiver_fn: as in TPUEstimator programs: a function that makes placeholders and
      returns an object with `features` and `receiver_tensors`, or a pair of these.
    assets_extra: relative path → file to copy to `assets.extra`.
    clock: returns the time in seconds since the epoch.
    completion: what to add before the export is published.

  Returns:
    The path of the SavedModel.

  Raises:
    SettingError: neither feature_spec nor serving_input_receiver_fn is given.
    ExportError: the written model's outputs differ from the model's. It is not published.
    OutputError: the files cannot be written. No incomplete export remains.
  """
  completion = completion or completion_lib.Completion()
  completion.prepare()
  config = dataclasses.replace(config, precision="float32")
  program = step.Program(
    model_fn, strategy=tf.distribute.get_strategy(), params=params, batch_sizes={}, config=config
  )

  found = []

  def predict(features):
    predictions, step_traced = program.predict([(features,)])
    found.append(step_traced.specification)
    return dataclasses.replace(found[-1], predictions=predictions).served_outputs()

  if serving_input_receiver_fn is None and feature_spec is None:
    raise errors.SettingError(
      "export_saved_model: nothing says which features the model takes: "
      "give serving_input_receiver_fn, or evaluate first."
    )
  module = tf.Module()
  with tables.remembered() as made:
    receive = None
    if serving_input_receiver_fn is not None:
      receive, feature_spec = _receiver(serving_input_receiver_fn)
    traced = tf.function(predict, input_signature=[feature_spec], autograph=False)
    concrete = traced.get_concrete_function()
    tpu_only.check(concrete, program.calls.model_name)
    outputs = concrete.structured_outputs
    methods = dict(found[-1].export_methods or {})
    if receive is None or not receive.takes_examples:  # as classify and regress do
      methods = {}
    signatures = {
      name: _signature(traced, name, receive, feature_spec, name in methods) for name in outputs
    }
    own = list(signatures)
    if receive is None:
      signatures |= completion.signatures(traced, outputs, feature_spec)
      module.decoders = completion.decoder_functions(feature_spec)
    signatures = {name: each.get_concrete_function() for name, each in signatures.items()}
  module.tables = tables.used_by([each.graph for each in signatures.values()], made)
  # The order is important: tracing above has created the variables that get their values here.
  give_values(program)
  # Local variables, such as counters, are in no checkpoint. They are served with initial values.
  module.model_variables = [*program.store.variables.values(), *program.store.local_variables()]

  def call(arrays):
    """Returns the model's outputs for the inputs of its own signatures, by name."""
    structure = feature_spec if receive is None else receive.spec
    tensors = [tf.constant(arrays[leaf.name], leaf.dtype) for leaf in tf.nest.flatten(structure)]
    nest = tf.nest.pack_sequence_as(structure, tensors)
    return traced(nest if receive is None else receive(nest))

  received = (
    None if receive is None else {leaf.name: leaf for leaf in tf.nest.flatten(receive.spec)}
  )

  def finish(path):
    signatures_lib.mark_methods(path, methods)
    completion.finish(path, call, own, received)

  return _write(module, signatures, export_dir_base, assets_extra, clock, finish)


def _signature(traced, name, receive, feature_spec, takes_examples=False):
  def serve(features):
    outputs = traced(features)[name]
    return outputs if isinstance(outputs, dict) else {"output": outputs}

  if receive is None:
    return tf.function(serve, input_signature=[feature_spec], autograph=False)

  def serve_received(received):
    return serve(receive(received))

  if takes_examples:
    (examples,) = tf.nest.flatten(receive.spec)
    named = tf.TensorSpec(examples.shape, examples.dtype, signatures_lib.CLASSIFY_INPUTS)

    def serve_examples(received):
      return serve_received(tf.nest.pack_sequence_as(receive.spec, [received]))

    return tf.function(serve_examples, input_signature=[named], autograph=False)
  return tf.function(serve_received, input_signature=[receive.spec], autograph=False)


class _Receiver:
  """Maps received tensors to features, as the graph of a serving_input_receiver_fn does."""

  def __init__(self, received, features, graph_function):
    # Signatures take tensors by the names that the receiver gives them.
    self.spec = (
      {name: tf.TensorSpec(t.shape, t.dtype, name) for name, t in received.items()}
      if isinstance(received, dict)
      else tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype, t.op.name), received)
    )
    leaves = tf.nest.flatten(self.spec)
    self.takes_examples = len(leaves) == 1 and leaves[0].dtype == tf.string
    self._pruned = graph_function.prune(tf.nest.flatten(received), tf.nest.flatten(features))
    self._features = features

  def __call__(self, received):
    return tf.nest.pack_sequence_as(self._features, self._pruned(*tf.nest.flatten(received)))


def _receiver(serving_input_receiver_fn):
  made = []  # wrap_function returns flat tensors; the structure leaves `make` through this list

  def make():
    result = serving_input_receiver_fn()
    features, received = (
      result
      if isinstance(result, tuple) and len(result) == 2
      else (result.features, result.receiver_tensors)
    )
    if tf.is_tensor(received):
      received = {"input": received}
    made.append((features, received))
    return tf.nest.flatten(features)

  graph_function = v1.wrap_function(make, [])
  features, received = made[0]
  receiver = _Receiver(received, features, graph_function)
  return receiver, tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), features)


def _write(module, signatures, base, assets_extra, clock, finish):
  setting_types.check(assets_extra, setting_types.Assets | None, "assets_extra")
  files.remove_litter(base)
  path = base
  try:
    with _aside(base, clock) as (aside, path):
      tf.saved_model.save(module, aside, signatures=signatures)
      for relative, source in (assets_extra or {}).items():
        target = os.path.join(aside, "assets.extra", relative)
        storage.makedirs(os.path.dirname(target))
        storage.copy(source, target)
      finish(aside)
      _publish(aside, path)
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"The SavedModel cannot be written to {path}: {files.reason(error)}"
    ) from error
  return path


@contextlib.contextmanager
def _aside(base, clock):
  """Yields where a SavedModel is written and checked, and the path at which it is then published.

  It is beside the others on a disk. For another file system, such as gs://, it is on this machine's
  disk: there a folder cannot be renamed, and the process that checks it may have no access.
  """
  with numbered_exports.claim(base, clock) as (number, claimed):
    path = os.path.join(base, str(number))
    if not storage.is_remote(base):
      yield claimed, path
      return
    with tempfile.TemporaryDirectory() as folder:
      yield os.path.join(folder, str(number)), path


def _publish(aside, path):
  """Makes a SavedModel appear, whole, under its name."""
  if not storage.is_remote(path):
    storage.rename(aside, path)
    return
  # What has no saved_model.pb is no SavedModel yet, so it comes last.
  names = [
    os.path.relpath(os.path.join(folder, name), aside)
    for folder, _, found in storage.walk(aside)
    for name in found
  ]
  try:
    for name in sorted(names, key=lambda name: (name == description.SAVED_MODEL, name)):
      target = os.path.join(path, name)
      storage.makedirs(os.path.dirname(target))
      storage.copy(os.path.join(aside, name), target, overwrite=True)
  except BaseException:  # also KeyboardInterrupt, which would leave the half of a SavedModel
    with contextlib.suppress(tf.errors.OpError, errors.StorageError):
      storage.rmtree(path)
    raise
