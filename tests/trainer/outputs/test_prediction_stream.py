"""Predictions, example by example."""

import numpy as np
import pytest

from trainer import errors
from trainer.outputs import prediction_stream

ARRAYS = {"a": np.array([1, 2]), "b": np.array([[3], [4]])}


@pytest.mark.parametrize("batch", [ARRAYS, (ARRAYS, {"x": np.array([5, 6])}), ARRAYS["a"]])
def test_an_example_has_the_structure_of_its_batch(batch):
  first, second = prediction_stream._examples(batch)
  assert type(first) is type(batch) or not isinstance(batch, dict | tuple)
  of_arrays = second[0] if isinstance(batch, tuple) else second
  if isinstance(of_arrays, dict):
    assert (of_arrays["a"], of_arrays["b"].tolist()) == (2, [4])
  else:
    assert of_arrays == 2


@pytest.mark.parametrize(
  ("keys", "predictions", "message"),
  [
    (["c"], ARRAYS, "predict_keys has 'c'; the predictions are a, b."),
    (["a"], ARRAYS["a"], "need a dict of predictions; model_fn gives one tensor"),
  ],
)
def test_keys_that_are_missing_are_named(keys, predictions, message):
  with pytest.raises(errors.SettingError, match=message):
    prediction_stream._check_keys(keys, predictions)
  prediction_stream._check_keys(["a"], ARRAYS)
  prediction_stream._check_keys(None, ARRAYS["a"])
