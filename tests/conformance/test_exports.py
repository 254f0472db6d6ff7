"""Each engine gives what the SavedModel gives, for each kind of model, or says why it cannot."""

import itertools

import pytest
import tensorflow as tf

from tests.conformance import exported_models
from trainer import errors
from trainer.outputs import engines, verification


def offered():
  """The engines whose packages are there."""
  for name in engines.NAMES:
    needs = engines.REQUIREMENTS.get(name)
    if name != "tflite_int8" and not (needs and needs.missing(converts=True)):
      yield name


def load(path, name):
  """An engine, or the error that says why it is not offered."""
  try:
    # A clock of whole seconds: the measurements end after the fewest rounds.
    return engines.load(path, name, batch_sizes=(1, 5), clock=itertools.count().__next__)
  except (errors.SettingError, errors.ExportError) as error:
    return error


@pytest.mark.parametrize("kind", exported_models.KINDS)
def test_engines_give_what_the_saved_model_gives(kind, tmp_path):
  path = exported_models.export(kind, tmp_path)
  name, array = exported_models.inputs(kind)
  serve = tf.saved_model.load(path).signatures["serving_default"]
  for engine_name in offered():
    engine = load(path, engine_name)
    if isinstance(engine, errors.OctetError):
      assert engine_name not in ("auto", "tensorflow")
      reasons = (f"--engine={engine_name} cannot run {path}: ", f"{path} in the engine")
      assert str(engine).startswith(reasons)
      continue
    for rows in (5, 1, 3):
      expected = {"y": serve(**{name: tf.constant(array[:rows])})["y"].numpy()}
      found = engine.predict_batch({name: array[:rows]})
      assert found["y"].dtype == expected["y"].dtype
      tolerance = 1e-3 if engine_name == "tflite" else 1e-5
      verification.compare(expected, found, f"{kind} in {engine_name}", tolerance)
