"""Heads in a program's model_fn: numbers of TensorFlow 2.15."""

import json
import pathlib

import pytest

import trainer.compat.v1 as tf
from tests import long
from tests.compat import heads_2_15
from trainer.compat.v1 import estimator

VALUES = json.loads(pathlib.Path(__file__).with_name("heads_2_15.json").read_text())


@pytest.mark.parametrize("name", long.except_for(["binary", "labels", "several heads"], VALUES))
def test_as_in_2_15(tmp_path, name):
  result, predicted = heads_2_15.run(tf, estimator, name, tmp_path, device="cpu")
  wanted, wanted_predictions = VALUES[name]
  assert result == pytest.approx(wanted, rel=1e-5)
  assert predicted.keys() == wanted_predictions.keys()
  for key, values in predicted.items():
    found = wanted_predictions[key]
    assert values == (found if isinstance(values[0], str) else pytest.approx(found, rel=1e-5)), key
