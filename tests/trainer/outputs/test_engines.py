"""All engines give what the SavedModel gives; the fastest is chosen by measuring."""

import concurrent.futures
import importlib.util
import itertools
import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import programs
from tests.trainer.outputs import timed_engines as timed
from tests.trainer.serving import exported as exported_lib
from trainer import errors
from trainer.cli import installation
from trainer.outputs import engines

HAS = {"onnx": "onnxruntime", "openvino": "openvino", "openvino_parts": "openvino"}


def needs(name):
  return pytest.mark.skipif(
    name in HAS and importlib.util.find_spec(HAS[name]) is None, reason=f"needs the extra [{name}]"
  )


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
  return exported_lib.make(tmp_path_factory.mktemp("engines"))[1]


def images(count):
  return np.random.RandomState(9).rand(count, *exported_lib.SHAPE).astype(np.float32)


@pytest.mark.parametrize(
  "name",
  [
    pytest.param(name, marks=needs(name))
    for name in ("tensorflow", "onnx", "openvino", "openvino_parts", "tflite")
  ],
)
def test_an_engine_gives_what_the_saved_model_gives(name, saved_model):
  loaded = engines.load(saved_model, name)
  assert loaded.name == name
  serve = tf.saved_model.load(saved_model).signatures["serving_default"]

  def check(count):
    found = loaded.predict_batch({"image": images(count)})
    wanted = serve(image=tf.constant(images(count)))
    assert set(found) == set(wanted)
    for key, tensor in wanted.items():
      assert found[key].dtype == tensor.dtype
      np.testing.assert_allclose(found[key], tensor, atol=1e-5)

  with concurrent.futures.ThreadPoolExecutor(4) as pool:  # at once, and of different sizes
    list(pool.map(check, [1, 8, 3, 1, 5, 8]))


@pytest.mark.parametrize(
  "name", [pytest.param(name, marks=needs(name)) for name in ("onnx", "openvino", "tflite")]
)
def test_gelu_in_every_engine(name, tmp_path):
  """It is made of erfc, which not every converter knows."""
  module = tf.Module()
  module.serve = tf.function(
    lambda x: {"y": tf.nn.gelu(x)}, input_signature=[tf.TensorSpec([None, 3], name="x")]
  )
  tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
  x = np.linspace(-4, 4, 12, dtype=np.float32).reshape(4, 3)
  found = engines.load(str(tmp_path), name).predict_batch({"x": x})["y"]
  np.testing.assert_allclose(found, tf.nn.gelu(x), atol=1e-6)


def test_a_slow_model_is_measured_with_fewer_examples(saved_model, monkeypatch):
  clock = timed.Clock()
  made = {
    "onnx": timed.Timed("onnx", clock, 0, 0.1),
    "openvino": timed.Timed("openvino", clock, 0.15, 0.09),
  }
  monkeypatch.setattr(engines.Requirements, "missing", lambda self, converts: [])
  monkeypatch.setattr(engines, "_MEASURED", ("tensorflow", *made))
  monkeypatch.setattr(engines, "_make_engine", lambda name, *_: made[name])
  monkeypatch.setattr(engines, "_check", lambda name, *_: made[name])
  for engine_ in made.values():
    monkeypatch.setattr(
      engine_,
      "predict_batch",
      lambda features, self=engine_: timed.Timed.predict_batch(self, {"x": features["image"]}),
    )
  monkeypatch.setattr(
    engines.TensorFlowEngine,
    "predict_batch",
    lambda self, features: clock.later(0.24 * len(features["image"])),
  )
  chosen = engines.load(saved_model, "auto", batch_sizes=(1, 128), clock=clock)
  assert chosen.name == "onnx"
  assert max(made["onnx"].sizes) == 4  # of which the slowest, TensorFlow, takes a second


def test_an_engine_that_fails_at_a_measured_size_is_not_chosen(saved_model, monkeypatch):
  class Small(engines.TensorFlowEngine):
    """Fast, and fails for more than four examples."""

    name = "onnx"

    def predict_batch(self, features):
      if len(features["image"]) > 4:
        raise RuntimeError("an axis of 5")
      return super().predict_batch(features)

  monkeypatch.setattr(engines.Requirements, "missing", lambda self, converts: [])
  monkeypatch.setattr(engines, "_MEASURED", ("tensorflow", "onnx"))
  monkeypatch.setattr(engines, "_load_engine", lambda name, file, frozen, *_: Small(frozen))
  monkeypatch.setattr(engines, "_LONGEST_SECS", 1000.0)  # By the clock below.
  warned = []
  monkeypatch.setattr(engines.logging, "warning", lambda text, *args: warned.append(text % args))
  clock = itertools.count().__next__
  chosen = engines.load(saved_model, "auto", batch_sizes=(5,), clock=clock)
  assert chosen.name == "tensorflow"
  (sentence,) = warned
  assert f"--engine=onnx cannot run {saved_model}: RuntimeError: an axis of 5" in sentence


def test_auto_works_with_what_is_installed(saved_model):
  found = engines.load(saved_model, batch_sizes=(1, 4)).predict_batch({"image": images(3)})
  assert found["probabilities"].shape == (3, 2)


def test_an_engine_that_gives_something_else_is_refused(saved_model, monkeypatch):
  class Wrong(engines.TensorFlowEngine):
    def predict_batch(self, features):
      found = super().predict_batch(features)
      return dict(found, probabilities=found["probabilities"] + 0.01)

  monkeypatch.setattr(engines, "_load_engine", lambda name, file, frozen, *_: Wrong(frozen))
  with pytest.raises(
    errors.ExportError, match="engine 'tflite': the output 'probabilities' differs"
  ):
    engines.load(saved_model, "tflite")


@pytest.mark.parametrize(
  ("name", "precision", "message"),
  [
    ("torch", "float32", "--engine=torch: expected one of auto, tensorflow, onnx"),
    ("onnx", "bfloat16", "--precision=bfloat16 works with OpenVINO alone"),
    ("openvino", "int4", "--precision=int4: expected one of float32, bfloat16"),
  ],
)
def test_settings_that_cannot_work(name, precision, message):
  with pytest.raises(errors.SettingError, match=message):
    engines.check_name(name, precision)


def test_an_engine_that_is_not_installed(monkeypatch):
  needs = engines.Requirements("model.onnx", None, "onnx", "no_such_package")
  monkeypatch.setitem(engines.REQUIREMENTS, "onnx", needs)
  with pytest.raises(
    errors.SettingError, match=f"needs no_such_package: `{re.escape(installation.command('onnx'))}`"
  ):
    engines.check_name("onnx")


def test_which_interpreter_runs_tensorflow_lite(monkeypatch):
  package = types.SimpleNamespace(Interpreter=object())
  found = importlib.util.find_spec
  there = {"ai_edge_litert": None}
  monkeypatch.setattr(
    importlib.util, "find_spec", lambda name: there[name] if name in there else found(name)
  )
  assert engines.find_interpreter() is tf.lite.Interpreter
  monkeypatch.delattr(tf.lite, "Interpreter")
  with pytest.raises(errors.SettingError, match=re.escape(installation.command("litert"))):
    engines.find_interpreter()
  there["ai_edge_litert"] = True
  monkeypatch.setitem(sys.modules, "ai_edge_litert", types.SimpleNamespace(interpreter=package))
  monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", package)
  assert engines.find_interpreter() is package.Interpreter


def test_what_is_no_export(tmp_path):
  with pytest.raises(errors.InputError, match="is no SavedModel"):
    engines.load(str(tmp_path))


def test_a_model_of_texts_runs_in_tensorflow_alone(tmp_path):
  def model_fn(features, labels, mode, params):
    length = tf.cast(tf.strings.length(features["text"]), tf.float32)
    return programs.line({"x": tf.stack([length] * 3, -1)}, labels, mode, params)

  def input_fn(params):
    texts = tf.data.Dataset.from_tensor_slices(
      ({"text": ["a", "bb"] * 8}, np.zeros(16, np.float32))
    )
    return texts.repeat().batch(params["batch_size"], drop_remainder=True)

  estimator = programs.estimator(tmp_path / "model", model_fn).train(input_fn, steps=1)
  path = estimator.export_saved_model(tmp_path / "export")
  assert engines.load(path).name == "tensorflow"
  with pytest.raises(
    errors.SettingError, match="--engine=tflite cannot run .*: its inputs are texts"
  ):
    engines.load(path, "tflite")


def test_int8_is_made_at_export(saved_model):
  with pytest.raises(errors.SettingError, match="has no model_int8.tflite. Export it with"):
    engines.load(saved_model, "tflite_int8")
