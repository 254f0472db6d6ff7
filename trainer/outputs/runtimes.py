"""Exports for other runtimes: files in the export's assets.extra, each compared with the model.

Example:
    model.onnx             for ONNX Runtime and others that read ONNX; needs the extra [onnx]
    model.xml, model.bin   for OpenVINO; needs the extra [openvino]
    model.tflite           for TensorFlow Lite, in float32
    model_int8.tflite      the same, quantised to int8 after the training; a sample of the data
                           shows the range of every tensor
"""

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.io import storage
from trainer.outputs import engines, freezing, served_inputs, verification

INT8 = "tflite_int8"
NAMES = ("onnx", "openvino", "tflite", INT8)
_SAMPLE = 128  # Examples that show the ranges for int8.
_MEASURED = 512  # Examples for the comparison of accuracies.
_BATCH = 64


def check_names(names: Sequence[str]) -> None:
  """Checks the setting ExportOptions.runtimes.

  Args:
    names: the setting: a list of some of `NAMES`.

  Raises:
    SettingError: a name is unknown, or a package for it is missing.
  """
  if not set(names) <= set(NAMES):
    raise errors.SettingError(
      f"ExportOptions.runtimes is {names!r}: expected a list of some of {', '.join(NAMES)}."
    )
  for name in names:
    needs = engines.REQUIREMENTS[name]
    engines.check_installed(f"ExportOptions.runtimes has {name!r}, and this needs", needs, True)


def add(
  saved_model: str,
  names: Sequence[str],
  check: verification.Check | None,
  sample: served_inputs.Sample | None,
) -> dict[str, dict]:
  """Writes the files of runtimes into an export before its publication.

  Args:
    saved_model: its folder.
    names: the runtimes, some of `NAMES`.
    check: a call of serving_default with the expected outputs; None without data.
    sample: function of a number that returns at most so many examples: (features by name, labels or
      None).

  Returns:
    An entry of octet.json: runtime → {"file", "differences"}. For int8, the accuracies instead of
    the differences.

  Raises:
    ExportError: a runtime's outputs differ from the model's.
    SettingError: a converter does not take the model.
  """
  try:
    frozen = freezing.freeze(engines.load_signature(saved_model))
  except errors.SettingError as error:
    raise errors.SettingError(
      f"ExportOptions.runtimes is {list(names)!r}, and none of them can run the model: {error}."
    ) from error
  told: dict[str, dict[str, Any]] = {}
  for name in names:
    needs = engines.REQUIREMENTS[name]
    try:
      contents, engine = _convert(name, frozen, sample)
    except errors.OctetError:
      raise
    except Exception as error:  # Converters raise errors of many kinds.
      raise errors.SettingError(
        f"ExportOptions.runtimes: cannot convert the model for {name!r}: {type(error).__name__}: "
        f"{errors.first_line(error)}"
      ) from error
    told[name] = {"file": needs.file}
    if needs.tolerance is None:
      told[name] |= _compare_int8(frozen, engine, sample)
    elif check is not None:
      told[name]["differences"] = verification.compare(
        check.expected,
        engine.predict_batch(check.inputs),
        f"The export for {name!r}",
        needs.tolerance,
      )
    # Write the files last: an engine that disagrees with the model leaves none.
    for ending, content in contents.items():
      path = os.path.join(saved_model, "assets.extra", os.path.splitext(needs.file)[0] + ending)
      storage.makedirs(os.path.dirname(path))
      storage.write(path, content)
  return told


def _convert(name, frozen, sample):
  """Converts a model; returns (ending of a file → its content, an engine that runs it)."""
  if name == "onnx":
    content = engines.convert_to_onnx(frozen)
    return {".onnx": content}, engines.OnnxEngine(content)
  if name == "openvino":
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, "model")
      engines.write_openvino(frozen, path)
      contents = {}
      for ending in (".xml", ".bin"):
        with open(path + ending, "rb") as file:
          contents[ending] = file.read()
      return contents, engines.OpenVinoEngine(path + ".xml")
  if name == INT8 and sample is None:
    raise errors.SettingError(
      f"ExportOptions.runtimes has {INT8!r}, and needs a sample of the data: evaluate first."
    )
  examples = (lambda: _one_by_one(sample)) if name == INT8 else None
  content = engines.convert_to_tflite(frozen, examples)
  return {".tflite": content}, engines.TfliteEngine(content)


def _one_by_one(sample):
  features, _ = sample(_SAMPLE)
  for row in range(len(next(iter(features.values())))):
    yield {name: array[row : row + 1] for name, array in features.items()}


def _compare_int8(frozen, engine, sample):
  """Measures the cost of int8: how often the class stays the same, and both accuracies."""
  features, labels = sample(_MEASURED)
  if "class" not in frozen.outputs:
    logging.info('int8: the model predicts no "class", and so there is no comparison.')
    return {}
  rows = len(next(iter(features.values())))
  before, after = [], []
  for first in range(0, rows, _BATCH):
    part = {name: array[first : first + _BATCH] for name, array in features.items()}
    before.append(frozen(**{name: tf.constant(array) for name, array in part.items()})["class"])
    after.append(engine.predict_batch(part)["class"])
  before, after = np.concatenate(before), np.concatenate(after)
  told = {"examples": rows, "same_class": float(np.mean(before == after))}
  shown = f"int8 gives the same class for {100 * told['same_class']:.1f} % of {rows} examples"
  if labels is not None and labels.shape == before.shape:
    told |= {
      "accuracy": float(np.mean(before == labels)),
      "accuracy_int8": float(np.mean(after == labels)),
    }
    shown += (
      f"; accuracy {100 * told['accuracy']:.2f} % in float32, "
      f"{100 * told['accuracy_int8']:.2f} % in int8"
    )
  logging.info("%s", shown)
  return told
