"""A model in memory: the inputs that it takes, and the errors about others."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.outputs.preprocessing import FROM_RAW
from trainer.serving import loaded_model

X = {"dtype": "float32", "shape": [None]}
AGE = {"dtype": "float64", "shape": [None]}


def model(raw=False, decoders=(), **inputs):
  described = {loaded_model.DEFAULT: {"inputs": inputs or {"x": X}}}
  description = {"signatures": described}
  if raw:
    described[FROM_RAW] = {"inputs": {"mean_age": AGE}}
    description["raw"] = {"mean age": {"input": "mean_age", "optional": True}}
  return loaded_model.LoadedModel("a/17/", description, dict.fromkeys(described), dict(decoders))


def test_the_version_is_the_name_of_the_folder():
  assert model().version == "17"


def test_columns_have_priority_unless_only_features_are_given():
  both = model(raw=True)
  assert list(both.takes(["mean age"])) == ["mean age"]
  assert list(both.takes(["x"])) == ["x"]
  assert list(both.takes(["x", "mean age"])) == ["mean age"]
  assert list(model().takes(["mean age"])) == ["x"]


def test_columns_have_two_names_and_missing_values():
  for name in ("mean age", "mean_age"):
    found = model(raw=True).check({name: [20, None]}, FROM_RAW)
    np.testing.assert_array_equal(found["mean_age"], [20.0, np.nan])


@pytest.mark.parametrize(
  ("loaded", "features", "message"),
  [
    (model(), {}, "The model takes x; 'x' is missing.$"),
    (model(x=X, y=X), {}, "The model takes x, y; 'x', 'y' are missing.$"),
    (model(), {"x": [1], "z": [1]}, "The model takes x; it knows no 'z'.$"),
    (model(raw=True), {"age": [1]}, "'x' is missing. Its signature from_raw takes mean age."),
    (model(x=X, y=X), {"x": [1, 2], "y": [1]}, "there are 2 of x, 1 of y"),
    (model(), {"x": []}, "There is no example"),
  ],
)
def test_features_that_do_not_fit_are_named(loaded, features, message):
  with pytest.raises(errors.InputError, match=message):
    loaded.check(features)


def test_a_missing_signature_is_named_with_the_present_ones():
  with pytest.raises(errors.InputError, match="no signature 'more' of its own; it has serving_def"):
    model().check({"x": [1]}, "more")


def test_a_decoder_that_fails_names_no_part_of_its_graph():
  @tf.function
  def decode(encoded):
    return tf.io.parse_tensor(encoded[0], tf.float32)

  loaded = model(decoders={"x": decode})
  with pytest.raises(errors.InputError) as raised:
    loaded.decode("x", [b"no tensor"])
  assert str(raised.value).startswith("The decoder fails: ")
  assert not any(part in str(raised.value) for part in ("{{", "[[", "[Op:"))
  with pytest.raises(errors.InputError, match="cannot decode files for 'y'; it can for x"):
    loaded.decode("y", [b""])
