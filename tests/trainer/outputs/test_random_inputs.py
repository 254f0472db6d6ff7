"""Random inputs for a model without data."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.outputs import random_inputs


def test_shapes_and_dtypes_fit_and_a_free_batch_has_a_size():
  specs = {
    "image": tf.TensorSpec([None, 4, 3], tf.float32),
    "half": tf.TensorSpec([None], tf.bfloat16),
    "ids": tf.TensorSpec([3, 2], tf.int64),
    "flag": tf.TensorSpec([None], tf.bool),
    "rate": tf.TensorSpec([], tf.float64),
  }
  found = random_inputs.make(specs, examples=5)
  assert {name: (array.shape, array.dtype.name) for name, array in found.items()} == {
    "image": ((5, 4, 3), "float32"),
    "half": ((5,), "bfloat16"),
    "ids": ((3, 2), "int64"),
    "flag": ((5,), "bool"),
    "rate": ((), "float64"),
  }
  again = random_inputs.make(specs, examples=5)
  for name, array in found.items():
    np.testing.assert_array_equal(again[name], array)
  assert set(np.unique(found["ids"])) <= {0, 1}


@pytest.mark.parametrize(
  "spec",
  [
    tf.TensorSpec([None], tf.string),
    tf.TensorSpec(None, tf.float32),
    tf.TensorSpec([None, None], tf.float32),
  ],
  ids=["text", "unknown rank", "unknown size"],
)
def test_an_input_that_nobody_can_guess_gives_none(spec):
  assert random_inputs.make({"x": tf.TensorSpec([2], tf.float32), "y": spec}) is None
