"""Loads an engine by name, or the fastest one."""

import contextlib
import dataclasses
import importlib.util
import os
import time
from collections.abc import Callable, Sequence

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import installation
from trainer.io import files, storage
from trainer.outputs import description, freezing, random_inputs, verification
from trainer.outputs.engines import (
  engine,
  measuring,
  onnx_engine,
  openvino_engine,
  tensorflow_engine,
  tflite_engine,
)

NAMES = ("auto", "tensorflow", "onnx", "openvino", "openvino_parts", "tflite", "tflite_int8")
PRECISIONS = ("float32", "bfloat16")
SIGNATURE = "serving_default"


@dataclasses.dataclass(frozen=True)
class Requirements:
  """The needs and promises of an engine.

  Attributes:
    file: the engine's file in an export, below assets.extra: ExportOptions.runtimes.
    tolerance: how far its outputs may be from TensorFlow's, see `verification.compare`; None: no
      comparison.
    extra: installs the packages; "" if TensorFlow has all.
    package: runs the engine.
    converter: makes the file.
  """

  file: str
  tolerance: float | None
  extra: str = ""
  package: str | None = None
  converter: str | None = None

  def missing(self, converts: bool) -> list[str]:
    """Returns the missing packages; the converter among them, if the engine converts the export."""
    wanted = [self.package, self.converter if converts else None]
    return [each for each in wanted if each and importlib.util.find_spec(each) is None]


REQUIREMENTS = {
  "onnx": Requirements("model.onnx", 1e-4, "onnx", "onnxruntime", "tf2onnx"),
  "openvino": Requirements("model.xml", 1e-4, "openvino", "openvino"),
  "openvino_parts": Requirements("model.xml", 1e-4, "openvino", "openvino"),
  "tflite": Requirements("model.tflite", 1e-3),
  "tflite_int8": Requirements("model_int8.tflite", None),
}
_MEASURED = ("tensorflow", "onnx", "openvino", "openvino_parts")
_LONGEST_SECS = 1.0  # Of one call; a slower model gets fewer examples.
_CHECKED_SIZES = (4, 1)


def check_name(name: str, precision: str = "float32") -> None:
  """Checks the flags --engine and --precision.

  Raises:
    SettingError: there is no such engine, it lacks the precision, or its packages are missing.
  """
  if name not in NAMES:
    raise errors.SettingError(f"--engine={name}: expected one of {', '.join(NAMES)}.")
  if precision not in PRECISIONS:
    raise errors.SettingError(f"--precision={precision}: expected one of {', '.join(PRECISIONS)}.")
  needs = REQUIREMENTS.get(name)
  if precision != "float32" and (needs is None or needs.extra != "openvino"):
    raise errors.SettingError(
      f"--precision={precision} works with OpenVINO alone: add --engine=openvino."
    )
  if needs is not None:
    check_installed(f"--engine={name} needs", needs, converts=False)


def check_installed(what_needs: str, needs: Requirements, converts: bool) -> None:
  """Raises SettingError if a package is missing; `what_needs` begins the message."""
  if missing := needs.missing(converts):
    raise errors.SettingError(
      f"{what_needs} {', '.join(missing)}: `{installation.command(needs.extra)}` brings it."
    )


def load(
  saved_model: str,
  name: str = "auto",
  *,
  batch_sizes: Sequence[int] = (128,),
  precision: str = "float32",
  threads: int | None = None,
  signature: str = SIGNATURE,
  clock: Callable = time.perf_counter,
) -> engine.Engine:
  """Loads an engine for an export.

  Args:
    saved_model: the export's folder.
    name: one of `NAMES`.
    batch_sizes: batch sizes that "auto" measures, in rising order. Each size gets its fastest
      engine. A batch between two sizes runs in the engine of the smaller one.
    precision: OpenVINO's precision. The other engines compute in float32.
    threads: number of threads of a call; None for all CPUs of this process.
    signature: the signature to run. Only "tensorflow" runs signatures other than serving_default.
    clock: returns the time in seconds.

  Returns:
    The engine. The function has compared its outputs with TensorFlow's.

  Raises:
    SettingError: the engine is missing, or cannot run the export.
    ExportError: its outputs differ from the SavedModel's.
    InputError: the folder is no SavedModel with this signature.
  """
  check_name(name, precision)
  if signature != SIGNATURE and name != "tensorflow":
    raise errors.SettingError(
      f"--engine={name} runs {SIGNATURE!r} alone; the signature {signature!r} takes "
      "--engine=tensorflow."
    )
  function = load_signature(saved_model, signature)
  try:
    frozen = freezing.freeze(function)
  except errors.SettingError as error:
    if name not in ("auto", "tensorflow"):
      raise errors.SettingError(
        f"--engine={name} cannot run {saved_model}: {error}. Use --engine=tensorflow."
      ) from error
    logging.info("Engine: tensorflow, with the SavedModel's own function: %s.", error)
    return tensorflow_engine.TensorFlowEngine(function)
  reference = tensorflow_engine.TensorFlowEngine(frozen)
  if name == "tensorflow":
    return reference
  if name == "auto":
    return _fastest(saved_model, frozen, reference, batch_sizes, threads, clock)
  return _make_engine(name, saved_model, frozen, reference, precision, threads)


def load_signature(
  saved_model: str, signature: str = SIGNATURE
) -> tf.types.experimental.ConcreteFunction:
  """Loads a signature of a SavedModel as a ConcreteFunction.

  Raises:
    InputError: there is no such SavedModel or signature.
  """
  names = description.signatures_of(saved_model)
  if signature not in names:
    raise errors.InputError(
      f"{saved_model} has no signature {signature!r}; it has {', '.join(names) or 'none'}."
    )
  with files.plain_path(saved_model) as plain:
    loaded = storage.retry("load the model", saved_model, lambda: tf.saved_model.load(plain))
  function = loaded.signatures[signature]
  function.keeps_alive = loaded  # Without `loaded`, Python would delete its variables.
  return function


def _random_features(frozen, examples):
  return random_inputs.make(frozen.function.structured_input_signature[1], examples)


def _make_engine(name, saved_model, frozen, reference, precision, threads):
  """Makes an engine, from the export's file if there is one, and compares it with TensorFlow."""
  if _random_features(frozen, 1) is None:
    raise errors.SettingError(
      f"--engine={name} cannot run {saved_model}: its inputs are texts, or their sizes are free. "
      "Use --engine=tensorflow."
    )
  needs = REQUIREMENTS[name]
  file = os.path.join(saved_model, "assets.extra", needs.file)
  has_file = storage.exists(file)
  if name == "tflite_int8" and not has_file:
    raise errors.SettingError(
      f"--engine=tflite_int8: {saved_model} has no {needs.file}. Export it with "
      'ExportOptions.runtimes = ["tflite_int8"]; the conversion needs a sample of the data.'
    )
  check_installed(f"--engine={name}, to convert the export, needs", needs, not has_file)
  with _explain(name, saved_model):
    made = _load_engine(name, file if has_file else None, frozen, precision, threads)
  for examples in _CHECKED_SIZES:
    _check(name, made, saved_model, frozen, reference, examples, precision)
  return made


@contextlib.contextmanager
def _explain(name, saved_model):
  """Turns an error of an engine's library into a SettingError that names engine and export."""
  try:
    yield
  except errors.OctetError:
    raise
  except Exception as error:  # The engines' libraries raise errors of many kinds.
    # OpenVINO begins its messages with places in its own files.
    lines = [line.strip() for line in str(error).splitlines() if "Exception from" not in line]
    reason = next(filter(None, lines), "").rstrip(".:")
    raise errors.SettingError(
      f"--engine={name} cannot run {saved_model}: {type(error).__name__}: {reason}. "
      "Use --engine=tensorflow."
    ) from error


def _check(name, made, saved_model, frozen, reference, examples, precision="float32"):
  """Runs an engine on random features, and compares its outputs with TensorFlow's; returns it.

  Raises:
    SettingError: it fails.
    ExportError: the outputs differ.
  """
  positive = _random_features(frozen, examples)
  # Of both signs, for the other branch of a condition; apart, for casts to integers.
  signed = {
    key: 8 * (each - each.dtype.type(0.5)) if each.dtype.kind == "f" else each
    for key, each in positive.items()
  }
  tolerance = REQUIREMENTS[name].tolerance if precision == "float32" else None
  for features in (positive, signed):
    with _explain(name, saved_model):
      found = made.predict_batch(features)
    if tolerance is not None:
      expected = reference.predict_batch(features)
      verification.compare(expected, found, f"{saved_model} in the engine {name!r}", tolerance)
  return made


def _load_engine(name, file, frozen, precision, threads):
  if name in ("openvino", "openvino_parts"):
    return openvino_engine.OpenVinoEngine(
      file or openvino_engine.read(frozen), threads, precision, in_parts=name == "openvino_parts"
    )
  content = storage.read(file, "rb") if file else None
  if name == "onnx":
    return onnx_engine.OnnxEngine(content or onnx_engine.convert(frozen), threads)
  return tflite_engine.TfliteEngine(content or tflite_engine.convert(frozen), threads)


def _fastest(saved_model, frozen, reference, batch_sizes, threads, clock):
  if _random_features(frozen, 1) is None:
    logging.info("Engine: tensorflow, since the model takes texts, or features of a free size.")
    return reference
  others = []
  for name in _MEASURED[1:]:
    if missing := REQUIREMENTS[name].missing(converts=False):
      if name == REQUIREMENTS[name].extra:  # Once for an extra.
        logging.info(
          "%s is missing; `%s` brings an engine that may be faster.",
          missing[0],
          installation.command(name),
        )
      continue
    if made := _or_warn(_make_engine, name, saved_model, frozen, reference, "float32", threads):
      others.append(made)
  if not others:
    return reference
  # The largest batch size with no measured call that takes too long.
  features = _random_features(frozen, 1)
  seconds = measuring.measure([reference, *others], features, clock, at_least=0.0)
  most = max(1, int(_LONGEST_SECS / max(*seconds.values(), 1e-9)))
  by_size = {}
  for size in batch_sizes:
    measured = min(size, most)
    others = [
      each
      for each in others
      if _or_warn(_check, each.name, each, saved_model, frozen, reference, measured)
    ]
    candidates = [reference, *others]
    seconds = measuring.measure(candidates, _random_features(frozen, measured), clock)
    by_size[size] = min(candidates, key=lambda candidate: seconds[candidate.name])
    logging.info(
      "Engine for batches of %d: %s; %d examples take %s.",
      size,
      by_size[size].name,
      measured,
      ", ".join(f"{1000 * seconds[one.name]:.3g} ms with {one.name}" for one in candidates),
    )
  return measuring.FastestEngine(by_size, reference)


def _or_warn(call, *arguments):
  """Returns the result of a call; None, with a warning, if the engine cannot run the export."""
  try:
    return call(*arguments)
  except errors.OctetError as error:
    logging.warning("%s", error)
    return None
