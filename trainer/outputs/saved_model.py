"""Exports a checkpoint as a SavedModel, for a CPU and with no needs but TensorFlow.

    <export_dir_base>/<number>/    a SavedModel; its signature "serving_default" takes the features
                                   by name. The number: see `outputs.numbered_exports`
    <export_dir_base>/<number>/assets.extra/octet.json
                                   its description, see `outputs.description`
    <export_dir_base>/<number>/MODEL_CARD.md
                                   the same for people, see `outputs.model_card`

Other signatures take encoded images or serialised Examples, see `outputs.signatures`. Every
signature takes any number of examples.

An export is `build` → `trace` → `assign` → `write` → `verify` → `publish`, from the top of this
file to its end. Octet builds the model anew, without a strategy and in float32, and assigns the
trained values by name. So nothing of the training device remains in it. Before Octet publishes it,
another process without Octet must get the same results from it, see `outputs.verification`.
"""

import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors, run_config, spec
from trainer.checkpoints import model_values
from trainer.inputs import feeder, read_errors
from trainer.io import files, storage
from trainer.outputs import (
  checks,
  description,
  model_card,
  numbered_exports,
  options,
  preprocessing,
  served_inputs,
  signatures,
  tables,
  verification,
  warm_up,
)
from trainer.programs import step as step_lib
from trainer.reporting import evaluations_file
from trainer.settings import setting_types
from trainer.settings.kinds import Kind

# The model that an export is compared with computes here, as the export's check does: on a GPU,
# float32 products have 10 bits of mantissa (TF32). Variables and eager calls take this device; the
# traced functions, and so the export, name none.
_DEVICE = "/cpu:0"


@dataclasses.dataclass(frozen=True)
class SavedModelExport:
  """Exports the checkpoints of a run.

  Attributes:
    model_fn: the model_fn.
    model_dir: the folder of the run.
    config: the run's configuration. float32 replaces its precision.
    params: the params of the model_fn, without "batch_size".
    values: the values of the run's checkpoints.
    feeder: knows the model's features.
    options: parts and checks of an export.
    traces: serving_input_receiver_fn → (the features' input_fn, the TracedModel) of `try_trace`.
  """

  model_fn: spec.ModelFn
  model_dir: str
  config: run_config.RunConfig
  params: Mapping[str, Any]
  values: model_values.ModelValues
  feeder: feeder.Feeder
  options: options.ExportOptions
  traces: dict[Callable | None, tuple[Any, "TracedModel"]] = dataclasses.field(default_factory=dict)

  def try_trace(self, serving_input_receiver_fn: Callable | None = None) -> None:
    """Traces an export before the training, to find what it would refuse. The next `save` uses it.

    It does nothing if no input_fn has told the features yet.

    Raises:
      OctetError: see `trace`.
    """
    if serving_input_receiver_fn is None and self.feeder.feature_input_fn is None:
      return
    traced = self._trace(serving_input_receiver_fn)
    self.traces[serving_input_receiver_fn] = self.feeder.feature_input_fn, traced

  def _trace(self, serving_input_receiver_fn):
    # A trace serves one export: afterwards its counters have other values, and the copy of the
    # model's variables would take memory.
    input_fn, traced = self.traces.pop(serving_input_receiver_fn, (None, None))
    if traced is not None and input_fn is self.feeder.feature_input_fn:
      return traced
    with tf.device(_DEVICE):
      program = build(self.model_fn, self.params, self.config)
      return trace(program, self.feeder, serving_input_receiver_fn, self.options)

  def save(
    self,
    export_dir_base: str | os.PathLike,
    serving_input_receiver_fn: Callable | None = None,
    assets_extra: setting_types.Assets | None = None,
    checkpoint_path: str | os.PathLike | None = None,
    clock: Callable[[], float] = time.time,
  ) -> str:
    """Writes a SavedModel; arguments, result and errors as of Estimator.export_saved_model.

    `clock` returns the time in seconds since the epoch.
    """
    # Without a checkpoint this raises before anything compiles.
    chosen = files.shown(self.values.source(checkpoint_path))
    setting_types.check(assets_extra, setting_types.Assets | None, "assets_extra")
    self.prepare()  # The other process imports TensorFlow while this one traces.
    checked = ", and running the export in another process to check it" * self.options.verify
    logging.info("Exporting %s%s ...", chosen, checked)
    model = self._trace(serving_input_receiver_fn)
    with tf.device(_DEVICE):
      source, step = assign(model, self.values, checkpoint_path)
      with _new_folder(os.fspath(export_dir_base), clock) as (folder, path):
        calls = write(model, folder, assets_extra or {})
        verify(model, folder, calls, self._about(source, step))
        publish(folder, path)
    logging.info("Exported %s to %s", files.shown(source), files.shown(path))
    return path

  def prepare(self) -> None:
    """Starts the process that verifies exports, if the options ask for it; does not wait for it."""
    if self.options.verify:
      verification.prepare()

  def _about(self, source, step):
    """Adds the origin of the values to octet.json."""
    about = {"metrics": {}, "report": None, "training": {}}
    if self.values.is_own(source):
      about = {
        "metrics": evaluations_file.read(self.model_dir, "").get(step, {}),
        "report": model_card.report_of(self.model_dir, step),
        "training": model_card.trained(self.model_dir, step),
      }
    return {
      "model": self.model_fn.full_name,
      "checkpoint": source,
      "global_step": step,
      **about,
      "card": dict(self.options.card or {}),
    }


def build(
  model_fn: spec.ModelFn, params: Mapping[str, Any], config: run_config.RunConfig
) -> step_lib.Program:
  """Returns the model anew, for one CPU and in float32. The model has no variables yet."""
  return step_lib.Program(
    model_fn,
    strategy=tf.distribute.get_strategy(),  # Outside of any scope: the default, one replica.
    params=params,
    batch_sizes={},
    config=dataclasses.replace(config, precision="float32"),
  )


@dataclasses.dataclass(frozen=True)
class TracedModel:
  """A model traced for an export.

  Attributes:
    program: has the variables.
    inputs: the inputs of the model's own signatures.
    predict: tf.function of the features that returns the outputs, name of a signature → outputs.
    own: names of the model's own signatures.
    signatures: name → the traced signature, of the model's own and of the others.
    methods: see `signatures.mark_methods`.
    preprocessing: makes features from the user's data; None if a receiver function does.
    tables: the look-up tables that the signatures use.
    options: parts and checks of the export.
  """

  program: step_lib.Program
  inputs: served_inputs.ServedInputs
  predict: Callable
  own: Sequence[str]
  signatures: Mapping[str, Any]
  methods: Mapping[str, str]
  preprocessing: preprocessing.Preprocessing | None
  tables: Sequence[Any]
  options: options.ExportOptions

  @property
  def beside(self) -> list[str]:
    """Names of the signatures beside the model's own."""
    return [name for name in self.signatures if name not in self.own]

  def outputs(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns the model's outputs for inputs by name, by names of signatures.

    Raises:
      ModelFnError: the model cannot compute them for this number of examples.
    """
    by_name = self.inputs.by_name
    tensors = {name: tf.constant(arrays[name], spec.dtype) for name, spec in by_name.items()}
    features = self.inputs.to_features(self.inputs.pack(tensors))
    try:
      return self.predict(features)
    except tf.errors.InvalidArgumentError as error:
      shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
      raise errors.ModelFnError(
        "An export takes any number of examples, and the model failed for "
        f"{shapes}: {read_errors.of_operation(error)}"
      ) from error


def trace(
  program: step_lib.Program,
  feeder_: feeder.Feeder,
  serving_input_receiver_fn: Callable | None,
  export_options: options.ExportOptions,
) -> TracedModel:
  """Traces the model and its signatures, and so creates its variables.

  Raises:
    SettingError: neither the input_fns nor a serving_input_receiver_fn tell the model's inputs; or
      a decoder does not fit the features.
    ModelFnError: the model has an operation of TPUs alone.
  """
  with tables.remembered() as made:
    inputs = (
      served_inputs.of_dataset(*feeder_.feature_dataset, export_options.decoders)
      if serving_input_receiver_fn is None
      else served_inputs.of_receiver(serving_input_receiver_fn)
    )
    predict, outputs, methods = _trace_prediction(program, inputs)
    functions: dict[str, Any] = signatures.of_model(predict, outputs, inputs, methods)
    made_of = None
    if inputs.are_features:
      made_of = preprocessing.of_inputs(inputs, outputs)
      functions |= signatures.beside_model(
        predict, outputs, inputs, made_of, export_options.class_names, export_options.from_examples
      )
    # get_concrete_function traces now, inside `remembered`: so it records the signatures' tables.
    traced = {name: function.get_concrete_function() for name, function in functions.items()}
  if signatures.CLASSIFY in traced and signatures.CLASSIFY not in outputs:
    methods[signatures.CLASSIFY] = "classify"
  used = tables.used_by([each.graph for each in traced.values()], made)
  return TracedModel(
    program, inputs, predict, list(outputs), traced, methods, made_of, used, export_options
  )


def _trace_prediction(program, inputs):
  """Returns the tf.function of the features, the structure of its outputs, and their methods."""
  found = []  # The EstimatorSpec is no tensor, so it leaves the trace through this list.

  def predict(features):
    predictions, traced = program.run_step(Kind.PREDICT, [(features,)])
    found.append(traced.specification)
    return dataclasses.replace(found[-1], predictions=predictions).served_outputs()

  function = tf.function(predict, input_signature=[inputs.feature_spec], autograph=False)
  concrete = function.get_concrete_function()
  leaves = tf.nest.flatten(inputs.spec)
  takes_examples = not inputs.are_features and [leaf.dtype for leaf in leaves] == [tf.string]
  methods = dict(found[-1].export_methods or {}) if takes_examples else {}
  return function, concrete.structured_outputs, methods


def assign(
  model: TracedModel, values: model_values.ModelValues, checkpoint_path: str | os.PathLike | None
) -> tuple[str, int]:
  """Assigns the values of a checkpoint to the model's variables; returns its path and its step."""
  names = model.program.calls.call_scaffold_fn(Kind.PREDICT)
  return values.assign_to(model.program.store, checkpoint_path, names)


@contextlib.contextmanager
def _new_folder(base: str, clock: Callable[[], float]) -> Iterator[tuple[str, str]]:
  """Yields the path to write and verify a SavedModel at, and the path to publish it at.

  On a disk, the first is beside the second. For another file system, such as gs://, it is on this
  machine's disk: there no process can rename a folder, and the verifying process may have no
  access.

  Raises:
    OutputError: it cannot write the files. No incomplete export remains.
  """
  files.remove_litter(base)
  path = base
  try:
    with contextlib.ExitStack() as stack:
      number, folder = stack.enter_context(numbered_exports.claim(base, clock))
      path = os.path.join(base, str(number))
      if storage.is_remote(base):
        here = stack.enter_context(tempfile.TemporaryDirectory())
        folder = os.path.join(here, str(number))
      yield folder, path
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"Cannot write the SavedModel to {path}: {files.reason(error)}"
    ) from error


def write(
  model: TracedModel, folder: str, assets_extra: setting_types.Assets
) -> list[verification.Check]:
  """Writes the SavedModel, with the files beside it and the requests to warm up with.

  Returns:
    Calls of the signatures, with the model's own outputs.
  """
  # tf.saved_model.save refuses a function if no attribute leads to its variables and tables.
  module = tf.Module()
  if model.preprocessing is not None:
    module.decoders = dict(model.preprocessing.decoders)
    if model.preprocessing.raw is not None:
      module.preprocess = model.preprocessing.to_features
  module.tables = model.tables
  # Local variables, such as counters, are in no checkpoint. The export gives them their initial
  # values.
  store = model.program.store
  module.model_variables = [*store.variables.values(), *store.local_variables()]
  tf.saved_model.save(module, folder, signatures=model.signatures)
  for relative, source in assets_extra.items():
    target = os.path.join(folder, "assets.extra", relative)
    storage.makedirs(os.path.dirname(target))
    storage.copy(os.fspath(source), target)
  signatures.mark_methods(folder, model.methods)
  calls = checks.build(
    model.outputs,
    model.own,
    model.beside,
    model.inputs,
    model.preprocessing,
    model.options.class_names,
  )
  warm_up.write(folder, calls, model.options.warm_up_batches)
  return calls


def verify(
  model: TracedModel, folder: str, calls: Sequence[verification.Check], about: Mapping[str, Any]
) -> None:
  """Has another process run the SavedModel, adds other runtimes' files, and describes it all.

  Raises:
    ExportError: outputs differ from the model's.
  """
  found = description.signatures_of(folder)
  made_of = model.preprocessing if model.beside else None
  described = description.describe(
    found,
    {**about, "sizes": _sizes(model, folder)},
    model.options.class_names,
    made_of.decoders if made_of else (),
    made_of.columns if made_of else None,
  )
  if model.options.verify:
    described["verified"] = verification.verify(folder, calls)
    loaded_only = set(found) - {call.signature for call in calls}
    if loaded_only:
      logging.warning(
        "The check loaded these signatures and had no input to run them with: %s.",
        ", ".join(sorted(loaded_only)),
      )
  if model.options.runtimes:
    from trainer.outputs import runtimes  # This imports TensorFlow Lite and others: only if needed.

    default = next((call for call in calls if call.signature == "serving_default"), None)
    described["runtimes"] = runtimes.add(
      folder, model.options.runtimes, default, model.inputs.sample
    )
  description.write(folder, described)
  model_card.write(folder, described)


def _sizes(model, folder):
  """Returns octet.json's "sizes"."""
  store = model.program.store
  counts = {
    name: each.shape.num_elements()
    for name, each in store.variables.items()
    if name != "global_step"
  }
  return {
    "parameters": sum(counts.values()),
    "trainable": sum(each.shape.num_elements() for each in store.trainable_variables()),
    "variables": len(counts),
    "bytes": sum(
      count * tf.as_dtype(store.variables[name].dtype).size for name, count in counts.items()
    ),
    "files": sum(
      storage.stat(os.path.join(below, name)).length
      for below, _, names in storage.walk(folder)
      for name in names
    ),
  }


def publish(folder: str, path: str) -> None:
  """Makes a SavedModel appear, whole, at its path."""
  if not storage.is_remote(path):
    storage.rename(folder, path)
    return
  # A folder without saved_model.pb is no SavedModel yet, so this file comes last.
  names = [
    os.path.relpath(os.path.join(below, name), folder)
    for below, _, found in storage.walk(folder)
    for name in found
  ]
  try:
    for name in sorted(names, key=lambda name: (name == description.SAVED_MODEL, name)):
      target = os.path.join(path, name)
      storage.makedirs(os.path.dirname(target))
      storage.copy(os.path.join(folder, name), target, overwrite=True)
  except BaseException:  # Also KeyboardInterrupt: it would leave half of a SavedModel.
    with contextlib.suppress(tf.errors.OpError, errors.StorageError):
      storage.rmtree(path)
    raise
