"""An export has files for other runtimes, which give the same; and int8 is told with what it
costs.
"""

import importlib.util
import re

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer.serving import exported as exported_lib
from trainer import errors
from trainer.cli import installation
from trainer.outputs import description, engines, runtimes, verification

HAS = {"onnx": "tf2onnx", "openvino": "openvino"}
INSTALLED = [
  name for name in runtimes.NAMES if name not in HAS or importlib.util.find_spec(HAS[name])
]


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
  return exported_lib.make(tmp_path_factory.mktemp("runtimes"), steps=20, runtimes=INSTALLED)[1]


@pytest.mark.parametrize("name", runtimes.NAMES)
def test_a_runtime(name, saved_model, monkeypatch):
  if name not in INSTALLED:
    pytest.skip(f"needs the extra [{name}]")
  told = description.read(saved_model)["runtimes"][name]
  # The file is what is run: nothing is converted any more.
  for convert in ("convert_to_onnx", "convert_to_tflite", "read_for_openvino"):
    monkeypatch.setattr(engines, convert, None)
  images = np.random.RandomState(9).rand(5, *exported_lib.SHAPE).astype(np.float32)
  found = engines.load(saved_model, name).predict_batch({"image": images})
  wanted = tf.saved_model.load(saved_model).signatures["serving_default"](image=images)
  tolerance = 0.05 if name == "tflite_int8" else 1e-5
  np.testing.assert_allclose(found["probabilities"], wanted["probabilities"], atol=tolerance)
  if name == "tflite_int8":
    assert np.abs(found["probabilities"] - wanted["probabilities"]).max() > 1e-5  # it is int8
    assert told["same_class"] > 0.9
    assert told["examples"] == 80
    assert abs(told["accuracy"] - told["accuracy_int8"]) < 0.1
  else:
    assert told["differences"]["class"] == 0


def test_a_runtime_that_gives_something_else_stops_the_export(tmp_path, monkeypatch):
  monkeypatch.setattr(
    runtimes, "_convert", lambda name, frozen, sample: ({".tflite": b""}, Wrong())
  )
  with pytest.raises(
    errors.ExportError, match="The export for 'tflite': the output 'class' differs"
  ):
    exported_lib.make(tmp_path, runtimes=["tflite"])
  assert list((tmp_path / "export").iterdir()) == []


class Wrong:
  """Predicts class 7."""

  def predict_batch(self, features):
    rows = len(features["image"])
    return {"class": np.full(rows, 7, np.int32), "probabilities": np.zeros((rows, 2))}


@pytest.mark.parametrize("names", ["tflite", ["torch"]])
def test_names_that_are_none(names):
  with pytest.raises(errors.SettingError, match="ExportOptions.runtimes is .*expected a list"):
    trainer.ExportOptions(runtimes=names)


def test_what_is_missing_is_said_at_once(monkeypatch):
  needs = engines.Requirements("model.onnx", None, "onnx", "no_such_package")
  monkeypatch.setitem(engines.REQUIREMENTS, "onnx", needs)
  with pytest.raises(
    errors.SettingError, match=f"needs no_such_package: `{re.escape(installation.command('onnx'))}`"
  ):
    trainer.ExportOptions(runtimes=["onnx"])


def test_int8_needs_data(saved_model):
  check = verification.Check("serving_default", {}, {})
  with pytest.raises(errors.SettingError, match="needs a sample of the data"):
    runtimes.add(saved_model, ["tflite_int8"], check, None)
