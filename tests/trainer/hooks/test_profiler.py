"""A profile of some steps lies where TensorBoard looks."""

import pytest

from tests.trainer import programs
from trainer import errors
from trainer.hooks.profiler import Profiler


@pytest.mark.parametrize("max_steps", [30, 12])  # 12: the training ends inside
def test_a_profile_is_written(max_steps, tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, hooks=[Profiler(10, 20)], max_steps=max_steps)
  assert [path.name.endswith("xplane.pb") for path in tmp_path.glob("plugins/profile/*/*")] == [True]


def test_a_training_that_does_not_get_there_has_none(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, hooks=[Profiler(10, 20)], max_steps=5)
  assert not (tmp_path / "plugins").exists()


def test_values_that_cannot_work():
  with pytest.raises(errors.SettingError, match="Profiler.last must be greater than Profiler.first; got 5 and 5"):
    Profiler(5, 5)
