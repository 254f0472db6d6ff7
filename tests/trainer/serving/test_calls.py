"""Calls of a model: which signatures a request may name, and which values it may have."""

import numpy as np
import pytest

from tests.input_pipelines import tiny_data
from trainer import errors
from trainer.outputs import signatures
from trainer.serving import calls, loaded_model

INPUTS = {"x": {"dtype": "float32", "shape": [None]}}


@pytest.fixture
def loaded():
  described = {"inputs": INPUTS}
  names = (loaded_model.DEFAULT, signatures.FROM_EXAMPLES, signatures.CLASSIFY)
  return loaded_model.LoadedModel(
    "1", {"signatures": dict.fromkeys(names, described)}, {loaded_model.DEFAULT: None}, {}
  )


def test_a_signature_needs_an_engine_or_examples(loaded):
  assert calls.inputs_of(loaded_model.DEFAULT, loaded) == INPUTS
  assert calls.inputs_of(signatures.FROM_EXAMPLES, loaded) == INPUTS
  for name in (signatures.CLASSIFY, None):
    with pytest.raises(errors.InputError, match="expected one of serving_default, from_examples"):
      calls.inputs_of(name, loaded)


def test_examples_become_the_features_of_serving_default(loaded):
  records = [tiny_data.example(x=[1.0]), tiny_data.example(x=[2.0])]
  columns = {signatures.EXAMPLES: records}
  call = calls.prepare(signatures.FROM_EXAMPLES, columns, loaded, write=None)
  assert call.signature == loaded_model.DEFAULT
  np.testing.assert_array_equal(call.features["x"], [1.0, 2.0])


@pytest.mark.parametrize("examples", [["a"], [], None, b"a"])
def test_examples_are_bytes(loaded, examples):
  with pytest.raises(errors.InputError, match="must be serialised tf.train.Examples"):
    calls.prepare(signatures.FROM_EXAMPLES, {signatures.EXAMPLES: examples}, loaded, write=None)


def test_examples_of_two_kinds_are_refused(loaded, monkeypatch):
  rows = iter([{"x": 1.0}, {"age": 20.0}])
  monkeypatch.setattr(calls.features, "parse_example", lambda *_: next(rows))
  with pytest.raises(errors.InputError, match="Some examples have columns or texts"):
    calls.prepare(signatures.FROM_EXAMPLES, {signatures.EXAMPLES: [b"", b""]}, loaded, write=None)


@pytest.mark.parametrize(("value", "shown"), [(float("nan"), "nan"), (1e999, "inf")])
def test_infinite_numbers_and_nan_are_refused_with_their_place(value, shown, loaded):
  message = rf"The feature 'x' is {shown} at \[1\]: expected finite numbers"
  with pytest.raises(errors.InputError, match=message):
    calls.prepare(loaded_model.DEFAULT, {"x": [1.0, value]}, loaded, write=None)
