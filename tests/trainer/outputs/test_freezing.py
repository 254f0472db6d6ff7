"""A frozen signature: its inputs, its outputs, and a graph without variables.

`tests.conformance.test_exports` has models of all kinds.
"""

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.outputs import freezing


class Model(tf.Module):
  """Outputs of many kinds."""

  def __init__(self):
    super().__init__()
    self.w = tf.Variable([[2.0], [3.0]], name="w")
    self.table = tf.Variable([10, 20, 30], dtype=tf.int64)

  @tf.function(
    input_signature=[
      {
        "x": tf.TensorSpec([None, 2], tf.float32, name="x"),
        "b_text": tf.TensorSpec([None], tf.string, name="b_text"),
        "a_unused": tf.TensorSpec([None], tf.int32, name="a_unused"),
      }
    ]
  )
  def serve(self, features):
    y = tf.matmul(features["x"], self.w * 2.0 + 1.0)
    return {
      "y": y,
      "again": y,
      "input": features["x"],
      "text": tf.strings.upper(features["b_text"]),
      "constant": tf.gather(self.table, [2, 0]),
      "a": tf.shape(features["x"])[:1],
    }


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
  folder = str(tmp_path_factory.mktemp("model"))
  model = Model()
  tf.saved_model.save(model, folder, signatures={"serving_default": model.serve})
  return tf.saved_model.load(folder)


FEATURES = {
  "x": np.float32([[1, 2], [3, 4], [5, 6]]),
  "b_text": np.array([b"a", b"\xff\x00", "é".encode()]),
  "a_unused": np.int32([1, 2, 3]),
}


def test_outputs_are_those_of_the_signature(loaded):
  signature = loaded.signatures["serving_default"]
  frozen = freezing.freeze(signature)
  tensors = {name: tf.constant(value) for name, value in FEATURES.items()}
  expected = signature(**tensors)
  found = frozen(**tensors)
  assert found.keys() == expected.keys()
  for name, tensor in expected.items():
    np.testing.assert_array_equal(found[name].numpy(), tensor.numpy(), strict=True, err_msg=name)


def test_inputs_have_the_signatures_names(loaded):
  frozen = freezing.freeze(loaded.signatures["serving_default"])
  assert set(frozen.inputs) == set(FEATURES)
  assert all(tensor == f"{name}:0" for name, tensor in frozen.inputs.items())
  assert len(set(frozen.outputs.values())) == len(frozen.outputs) == 6


def test_no_variable_is_left(loaded):
  frozen = freezing.freeze(loaded.signatures["serving_default"])
  operations = [node.op for node in frozen.graph_def.node]
  assert not {"VarHandleOp", "ReadVariableOp"} & set(operations)
  assert not [each for each in frozen.function.graph.inputs if each.dtype == tf.resource]


def test_the_frozen_graph_keeps_its_values_when_variables_change(loaded):
  frozen = freezing.freeze(loaded.signatures["serving_default"])
  before = frozen(**{name: tf.constant(value) for name, value in FEATURES.items()})["y"]
  kept = loaded.w.read_value()
  loaded.w.assign(tf.zeros_like(loaded.w))
  after = frozen(**{name: tf.constant(value) for name, value in FEATURES.items()})["y"]
  loaded.w.assign(kept)
  np.testing.assert_array_equal(before, after)


def test_a_missing_input_is_named(loaded):
  frozen = freezing.freeze(loaded.signatures["serving_default"])
  with pytest.raises(TypeError, match="b_text|a_unused"):
    frozen(x=tf.constant(FEATURES["x"]))


def test_a_state_that_no_constant_replaces_is_named():
  count = tf.Variable(0.0)
  table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(tf.constant([1], tf.int64), [2.0]), 0.0
  )
  spec = [tf.TensorSpec([None], tf.int64, "x")]
  for call, reason in (
    (lambda x: {"y": table.lookup(x)}, "no constant replaces its look-up table"),
    (
      lambda x: {"y": count.assign_add(1.0)},
      "no constant replaces a variable that the model assig",
    ),
  ):
    function = tf.function(call, input_signature=spec).get_concrete_function()
    with pytest.raises(errors.SettingError, match=reason):
      freezing.freeze(function)
