"""Batches made from a spec."""

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import random_inputs
from trainer import errors

FEATURES = {
  "image": ((4, 4, 3), "float32"),
  "tokens": ((6,), "int32"),
  "mask": ((6,), "bool"),
  "half": ((), "bfloat16"),
}
PARAMS = {"batch_size": 5}


def read(**settings):
  tf.random.set_seed(settings.pop("seed", 1))
  return random_inputs.input_fn(PARAMS, **{"features": FEATURES, **settings})


def test_shapes_types_and_ranges():
  features, labels = next(iter(read(classes=3, vocabulary_size=7)))
  assert {
    name: (tuple(tensor.shape[1:]), tensor.dtype.name) for name, tensor in features.items()
  } == FEATURES
  assert labels.shape == [5]
  assert labels.dtype == tf.int32
  assert 0 <= features["image"].numpy().min() < features["image"].numpy().max() < 1
  assert set(labels.numpy()) <= {0, 1, 2}
  assert features["tokens"].numpy().max() < 7


def test_static_shapes():
  assert read().element_spec[0]["image"].shape == [5, 4, 4, 3]


def test_the_same_few_batches_for_ever():
  batches = [features["image"] for features, _ in read(batches=3).take(7).as_numpy_iterator()]
  for i in range(3):
    np.testing.assert_array_equal(batches[i], batches[i + 3])
    assert (batches[i] != batches[i + 1]).any()


def test_seeded():
  first, again, other = (next(iter(read(seed=seed)))[0]["image"].numpy() for seed in (1, 1, 2))
  np.testing.assert_array_equal(first, again)
  assert (first != other).any()


@pytest.mark.parametrize(
  ("examples", "sizes"), [(None, [5] * 4), (12, [5, 5, 2]), (27, [5] * 5 + [2])]
)
def test_not_training(examples, sizes):
  assert [len(labels) for _, labels in read(training=False, examples=examples)] == sizes


def test_without_labels():
  assert sorted(read(labels=None).element_spec) == sorted(FEATURES)


@pytest.mark.parametrize(
  "spec", ["float32", ((4,),), ((4,), "floaty"), (4, "float32"), ((4,), "string")]
)
def test_errors(spec):
  with pytest.raises(errors.SettingError, match=r"random_inputs.input_fn.features\['x'\]"):
    read(features={"x": spec})
