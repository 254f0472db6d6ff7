"""Histograms of the weights are in TensorBoard's files, of the steps that were asked for."""

import pytest
from tensorflow.python.summary import summary_iterator

from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.hooks.histograms import Histograms


@long.ON_TWO_CORES
def test_the_models_own_variables_at_their_steps(tmp_path, device):
  programs.estimator(tmp_path, device=device).train(
    programs.train_input, hooks=[Histograms(10)], max_steps=25
  )
  found = {
    (event.step, value.tag)
    for path in tmp_path.glob("events.*")
    for event in summary_iterator.summary_iterator(str(path))
    for value in event.summary.value
    if value.metadata.plugin_data.plugin_name == "histograms"
  }
  assert found == {(step, name) for step in (10, 20) for name in ("w", "b")}


def test_values_that_cannot_work():
  with pytest.raises(
    errors.SettingError, match="Histograms.steps is 0; expected an int greater than 0"
  ):
    Histograms(0)
