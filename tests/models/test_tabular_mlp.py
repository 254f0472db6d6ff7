"""The network of tables: numbers, categories, or both."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from models import tabular_mlp
from trainer import errors, testing

RANDOM = np.random.RandomState(3)
NUMBERS = RANDOM.randn(64, 2).astype(np.float32)
CATEGORIES = RANDOM.randint(0, 4, [64, 2]).astype(np.int32)


def input_fn(features, params):
  labels = (NUMBERS[:, 0] > 0).astype(np.int32) ^ (CATEGORIES[:, 1] > 1)
  dataset = tf.data.Dataset.from_tensor_slices((features, labels.astype(np.int32)))
  return dataset.repeat().batch(params["batch_size"], drop_remainder=True)


def model_fn(sizes):
  return functools.partial(
    tabular_mlp.model_fn, classes=2, vocabulary_sizes=sizes, hidden_units=(16,), dropout=0.0
  )


def test_it_learns_what_hangs_on_both_kinds():
  both = functools.partial(input_fn, {"numbers": NUMBERS, "categories": CATEGORIES})
  testing.assert_learns(model_fn((4, 4)), both, steps=300, below=0.3)


@pytest.mark.parametrize("sizes", [(), (4,)])
def test_categories_and_their_sizes_belong_together(sizes):
  features = {"categories": CATEGORIES} if not sizes else {"numbers": NUMBERS}
  with pytest.raises(errors.SettingError, match=r"bind @tabular\.vocabulary_sizes"):
    testing.assert_learns(model_fn(sizes), functools.partial(input_fn, features), steps=1)
