"""A profile of some steps: a table of where their time went, and files where TensorBoard looks."""

import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.hooks.profiler import Profiler
from trainer.programs import executor
from trainer.reporting import step_times


@pytest.mark.parametrize("max_steps, end", [(30, 20), (12, 12)])  # 12: the training ends inside
def test_a_profile_is_written(max_steps, end, tmp_path, caplog):
  with caplog.at_level("INFO", logger="absl"):
    programs.estimator(tmp_path).train(
      programs.train_input, hooks=[Profiler(10, 20)], max_steps=max_steps
    )
  assert f"Profile of the steps up to {end}: " in caplog.text
  assert [path.name.endswith("xplane.pb") for path in tmp_path.glob("plugins/profile/*/*")] == [
    True
  ]


def test_a_training_that_does_not_get_there_has_none(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, hooks=[Profiler(10, 20)], max_steps=5)
  assert not (tmp_path / "plugins").exists()


def test_training_continues_beside_another_profile(tmp_path, caplog):
  tf.profiler.experimental.start(str(tmp_path / "other"))
  try:
    estimator = programs.estimator(tmp_path / "model")
    estimator.train(programs.train_input, hooks=[Profiler(1, 2)], max_steps=3)
  finally:
    tf.profiler.experimental.stop()
  assert "No profile at step 1: this process is taking another one." in caplog.text
  assert estimator.latest_step() == 3


def test_values_that_cannot_work():
  with pytest.raises(
    errors.SettingError, match="Profiler.last must be greater than Profiler.first; got 5 and 5"
  ):
    Profiler(5, 5)


@pytest.mark.parametrize("light", [True, False])
def test_the_steps_of_a_training_are_found_in_its_profile(tmp_path, monkeypatch, light):
  monkeypatch.setattr(executor, "LIGHT_FLOPS", 10**7 if light else 0)
  programs.estimator(tmp_path, tpu_config=trainer.TPUConfig(iterations_per_loop=5)).train(
    programs.train_input, hooks=[Profiler(10, 30)], max_steps=40
  )
  times = step_times.read(tmp_path)
  assert times.device > 0
  assert times.host > 0  # between the four loops
  assert times.input >= 0
  assert light is not ("MatMul" in times.operations)
