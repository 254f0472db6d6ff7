"""The parts of a loaded export: its engines, and the calls that warm it up."""

import numpy as np
import pytest

from trainer import errors
from trainer.outputs import description, engines, signatures, warm_up
from trainer.outputs.preprocessing import FROM_BYTES, FROM_RAW
from trainer.serving import loading

X = {"x": {"dtype": "float32", "shape": [None, 2]}}
TEXT = {"text": {"dtype": "string", "shape": [None]}}


class Engine(engines.Engine):
  """Notes its calls."""

  def __init__(self, name):
    self.name, self.calls = name, []

  def predict_batch(self, features):
    self.calls.append({name: np.shape(array) for name, array in features.items()})
    return {}


@pytest.fixture
def load(monkeypatch):
  """Loads an export with this description and these warm-up requests."""

  def load(names, requests=(), default=X, **described):
    found = {name: {"inputs": default, "outputs": {}} for name in names}
    found.update(described.pop("others", {}))
    described = {"signatures": found, "decodes": [], "class_names": None, **described}
    monkeypatch.setattr(description, "read", lambda path: described)
    monkeypatch.setattr(warm_up, "read", lambda path: list(requests))
    monkeypatch.setattr(engines, "load", lambda path, name="auto", **_: Engine(name))
    return loading.load("/export/17", name="onnx")

  return load


def test_the_default_has_the_asked_engine_and_others_tensorflows(load):
  loaded = load(["serving_default", "other"])
  assert {name: engine.name for name, engine in loaded.engines.items()} == {
    "serving_default": "onnx",
    "other": "tensorflow",
  }


def test_signatures_that_an_export_adds_need_no_engine(load):
  added = {
    signatures.FROM_EXAMPLES: {"inputs": TEXT, "outputs": {}},
    signatures.CLASSIFY: {"inputs": TEXT, "outputs": {}},
  }
  assert list(load(["serving_default"], others=added).engines) == ["serving_default"]


@pytest.mark.parametrize("name", [signatures.FROM_EXAMPLES, FROM_BYTES, FROM_RAW])
def test_the_models_own_signature_of_such_a_name_has_one(load, name):
  assert list(load(["serving_default", name]).engines) == ["serving_default", name]


def test_requests_of_the_export_warm_it_up(load):
  requests = [
    ("serving_default", {"x": np.ones([8, 2])}),
    ("gone", {"x": np.ones([1, 2])}),
    ("other", {"x": np.ones([1, 2])}),
  ]
  loaded = load(["serving_default", "other"], requests)
  calls = {name: engine.calls for name, engine in loaded.engines.items()}
  assert calls == {"serving_default": [{"x": (8, 2)}], "other": [{"x": (1, 2)}]}


@pytest.mark.parametrize(("inputs", "calls"), [(X, [{"x": (1, 2)}]), (TEXT, [])])
def test_without_requests_one_random_example_does(load, inputs, calls):
  assert load(["serving_default"], default=inputs).engine.calls == calls


@pytest.mark.parametrize(("names", "there"), [([], "none"), (["a", "b"], "a, b")])
def test_an_export_without_a_default_is_told(load, names, there):
  with pytest.raises(
    errors.InputError, match=f"has no signature 'serving_default'; it has {there}"
  ):
    load(names)
