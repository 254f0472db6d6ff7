"""Checks of an export: what they call, and what the model gives for it."""

import types

import numpy as np
import pytest
import tensorflow as tf

from trainer.outputs import checks, served_inputs, signatures


class Model:
  """Doubles its feature; counts its calls."""

  def __init__(self):
    self.calls = 0

  def __call__(self, features):
    self.calls += 1
    y = 2.0 * np.asarray(features["x y"], np.float64)
    return {"serving_default": {"probabilities": np.stack([y, -y], 1)}, "other": y + self.calls}


SPEC = {"x y": tf.TensorSpec([None], tf.float32, "x_y")}
X = {"x y": np.float32([1, 2, 3])}


def inputs(sample=lambda count: (X, None)):
  return served_inputs.ServedInputs(SPEC, SPEC, sample=sample)


def build(model=None, own=("serving_default",), beside=(), preprocessing=None, **settings):
  given = settings.pop("inputs", inputs())
  return checks.build(model or Model(), own, beside, given, preprocessing, ["ant", "bee"])


def test_each_own_signature_has_the_outputs_of_the_second_call():
  first, second = build(own=("serving_default", "other"))
  assert (first.signature, list(first.inputs)) == ("serving_default", ["x_y"])
  np.testing.assert_array_equal(first.expected["probabilities"][:, 0], [2, 4, 6])
  # The other process makes one call before: a model that counts must not agree by chance.
  np.testing.assert_array_equal(second.expected["output"], [4, 6, 8])


def test_without_data_inputs_are_random_or_there_is_no_check():
  known = inputs(sample=None)
  [check] = checks.build(
    lambda features: {"serving_default": features["x_y"]},
    ["serving_default"],
    (),
    known,
    None,
    None,
  )
  assert check.inputs["x_y"].shape == (2,)
  text = {"x y": tf.TensorSpec([None], tf.string, "x_y")}
  unknown = served_inputs.ServedInputs(text, text)
  assert build(inputs=unknown) == []


def columns(*names):
  """Makes the feature of a column "age" and a text "job"."""
  raw = types.SimpleNamespace(
    examples={"age": np.float64([0.1, 7]), "job": np.array([b"cook", b""], object)}
  )
  return types.SimpleNamespace(
    raw=raw,
    signature="from_raw",
    spec={
      "age": tf.TensorSpec([None], tf.float64, "age"),
      "job": tf.TensorSpec([None], tf.string, "job_"),
    },
    to_features=lambda received: {"x y": received["age"]},
    decoders=(),
  )


def test_users_values_go_through_all_signatures_beside():
  beside = ("from_raw", signatures.FROM_EXAMPLES, signatures.CLASSIFY)
  own, *found = build(beside=beside, preprocessing=columns())
  assert own.signature == "serving_default"
  by_name = {check.signature: check for check in found}
  assert set(by_name) == set(beside)
  assert list(by_name["from_raw"].inputs) == ["age", "job_"]
  # As exact as an Example holds it.
  exact = float(np.float32(0.1))
  np.testing.assert_array_equal(by_name["from_raw"].inputs["age"], [exact, 7])
  scores = by_name[signatures.CLASSIFY].expected
  np.testing.assert_array_equal(scores["scores"][:, 0], [2 * exact, 14])
  assert scores["classes"].tolist() == [[b"ant", b"bee"]] * 2
  [first, _] = by_name[signatures.FROM_EXAMPLES].inputs["examples"]
  stored = tf.train.Example.FromString(first).features.feature
  assert stored["age"].float_list.value[0] == np.float32(0.1)
  assert stored["job"].bytes_list.value[:] == [b"cook"]


@pytest.mark.parametrize(
  ("value", "kind", "stored"),
  [
    (np.float32([[1, 2], [3, 4]]), "float_list", [1, 2, 3, 4]),
    (np.array([1.5], tf.bfloat16.as_numpy_dtype), "float_list", [1.5]),
    (np.int64([2**62]), "int64_list", [2**62]),
    (np.array([True, False]), "int64_list", [1, 0]),
    (np.array([b"a", b""], object), "bytes_list", [b"a", b""]),
    (b"\x00file", "bytes_list", [b"\x00file"]),
    (np.uint8(7), "int64_list", [7]),
  ],
)
def test_an_example_holds_values_of_each_kind(value, kind, stored):
  made = tf.train.Example.FromString(checks.serialise({"v": value}))
  feature = made.features.feature["v"]
  assert feature.WhichOneof("kind") == kind
  assert list(getattr(feature, kind).value) == stored


def test_files_are_images_of_several_sizes():
  files = checks._images((6, 5, 3), 3)
  shapes = [tf.io.decode_image(file).shape.as_list() for file in files]
  assert shapes == [[6, 5, 3], [15, 19, 3], [13, 5, 3]]
  assert files == checks._images((6, 5, 3), 3)


@pytest.mark.parametrize("shape", [(5,), (6, 5, 4), (2, 6, 5, 3)])
def test_a_decoder_of_something_else_has_no_files(shape):
  assert checks._images(shape, 3) is None
