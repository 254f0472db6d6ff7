"""RunConfig and TPUConfig are complete and checked once made."""

import dataclasses

import pytest

import trainer
from tests.trainer import programs
from trainer import errors, run_config


def test_checkpoints_are_every_ten_minutes_by_default():
  config = trainer.RunConfig()
  assert (config.checkpoint_steps, config.checkpoint_seconds) == (None, 600.0)
  assert config.keep_checkpoint_max == 5


def test_a_cadence_in_steps_takes_the_place_of_that_in_seconds():
  config = trainer.RunConfig(save_checkpoints_steps=50)
  assert (config.checkpoint_steps, config.checkpoint_seconds) == (50, None)


@pytest.mark.parametrize("name", ["save_checkpoints_steps", "save_checkpoints_secs"])
def test_zero_leaves_the_first_and_the_last_checkpoint(name):
  config = trainer.RunConfig(**{name: 0})
  assert (config.checkpoint_steps, config.checkpoint_seconds) == (None, None)


def test_both_cadences_are_an_error():
  with pytest.raises(
    errors.SettingError, match="save_checkpoints_steps or save_checkpoints_secs, not both"
  ):
    trainer.RunConfig(save_checkpoints_steps=10, save_checkpoints_secs=10)


@pytest.mark.parametrize("name", ["save_summary_steps", "log_step_count_steps"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True, None, "10"])
def test_steps_between_reports_are_positive_ints(name, value):
  with pytest.raises(
    errors.SettingError, match=f"RunConfig.{name} is .*; expected an int greater than 0"
  ):
    trainer.RunConfig(**{name: value})


@pytest.mark.parametrize(
  "name", ["save_checkpoints_steps", "save_checkpoints_secs", "keep_checkpoint_max"]
)
@pytest.mark.parametrize("value", [-1, True, "10"])
def test_checkpoint_settings_are_not_negative(name, value):
  with pytest.raises(errors.SettingError, match=f"RunConfig.{name}"):
    trainer.RunConfig(**{name: value})


@pytest.mark.parametrize("name", ["save_checkpoints_steps", "keep_checkpoint_max"])
def test_numbers_of_steps_and_of_checkpoints_are_whole(name):
  with pytest.raises(errors.SettingError, match=f"RunConfig.{name}"):
    trainer.RunConfig(**{name: 2.5})


def test_precision_is_one_of_two():
  assert trainer.RunConfig(precision="bfloat16").precision == "bfloat16"
  with pytest.raises(
    errors.SettingError, match="precision is 'float16'; expected 'float32' or 'bfloat16'"
  ):
    trainer.RunConfig(precision="float16")


@pytest.mark.parametrize("value", ["on", 2])
def test_cpu_kernels_are_on_off_or_the_default_of_the_device(value):
  with pytest.raises(
    errors.SettingError, match="RunConfig.cpu_kernels is .*True or False, or None"
  ):
    trainer.RunConfig(cpu_kernels=value)


@pytest.mark.parametrize("seed", [None, 1.5, True, "1"])
def test_the_seed_is_an_int(seed):
  with pytest.raises(errors.SettingError, match="tf_random_seed is .*; expected an int .--seed"):
    trainer.RunConfig(tf_random_seed=seed)


def test_a_config_does_not_change_once_made():
  with pytest.raises(dataclasses.FrozenInstanceError):
    trainer.RunConfig().model_dir = "elsewhere"


@pytest.mark.parametrize(
  "text, seconds", [("30s", 30), ("5m", 300), ("1h", 3600), ("0.5s", 0.5), ("2 m", 120)]
)
def test_durations(text, seconds):
  assert run_config.seconds_of(text, "x") == seconds
  trainer.TPUConfig(iterations_per_loop=text)


def test_settings_of_seconds_take_times():
  config = trainer.RunConfig(
    stage_timeout_secs="1h", save_checkpoints_secs="5m", cluster_timeout_secs="30s"
  )
  found = config.stage_seconds, config.checkpoint_seconds, config.cluster_seconds
  assert found == (3600, 300, 30)
  config = trainer.RunConfig(stage_timeout_secs=7, save_checkpoints_secs="0s")
  assert (config.stage_seconds, config.checkpoint_seconds) == (7, None)
  assert trainer.RunConfig(stage_timeout_secs=None).stage_seconds is None


@pytest.mark.parametrize(
  "name", ["stage_timeout_secs", "save_checkpoints_secs", "cluster_timeout_secs"]
)
def test_seconds_that_are_no_time_are_one_sentence(name):
  with pytest.raises(
    errors.SettingError,
    match=f"RunConfig.{name} is 'soon': expected a number of seconds, or a time such as '30s'",
  ):
    trainer.RunConfig(**{name: "soon"})


@pytest.mark.parametrize("text", ["", "s", "5", "5d", "-5s", "5s5", "fast"])
def test_what_is_no_duration_is_an_error_that_shows_some(text):
  with pytest.raises(
    errors.SettingError,
    match=r"TPUConfig.iterations_per_loop is .*'30s', '5m', "
    r"'1h'",
  ):
    trainer.TPUConfig(iterations_per_loop=text)


@pytest.mark.parametrize("name", ["iterations_per_loop", "num_shards"])
@pytest.mark.parametrize("value", [0, -1, 1.5, False])
def test_tpu_config_numbers_are_positive_ints(name, value):
  with pytest.raises(
    errors.SettingError, match=f"TPUConfig.{name} is .*; expected an int greater than 0"
  ):
    trainer.TPUConfig(**{name: value})


def test_the_number_of_shards_is_that_of_the_device(tmp_path):
  with pytest.raises(
    errors.SettingError, match="num_shards is 4, and the device .* has 8 replicas"
  ):
    programs.estimator(tmp_path, device="cpu:8", tpu_config=trainer.TPUConfig(num_shards=4))
  programs.estimator(tmp_path, device="cpu:8", tpu_config=trainer.TPUConfig(num_shards=8))


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (
      lambda: trainer.RunConfig(save_checkpoint_steps=1),
      "RunConfig has no setting 'save_checkpoint_steps'. Did you mean save_checkpoints_steps",
    ),
    (lambda: trainer.TPUConfig(shards=1), "TPUConfig has no setting 'shards'"),
  ],
)
def test_a_misspelt_setting_is_told_with_those_like_it(make, message):
  with pytest.raises(errors.SettingError, match=message):
    make()


@pytest.mark.parametrize(
  ("given", "expected"),
  [
    ("out/digits/", "{here}/out/digits"),
    ("./out//digits", "{here}/out/digits"),
    ("nowhere/../digits", "{here}/digits"),
    ("/a/b", "/a/b"),
    ("gs://bucket/run/", "gs://bucket/run"),
    ("gs://bucket/x/../run/.", "gs://bucket/run"),
    ("gs://bucket/a//b", "gs://bucket/a//b"),
    ("gs://bucket", "gs://bucket"),
    ("file:///runs/digits/", "/runs/digits"),
  ],
)
def test_the_absolute_path_of_a_folder(given, expected, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert run_config.absolute_dir(given) == expected.format(here=tmp_path)


def test_what_a_folder_behind_a_link_lies_in(tmp_path):
  (tmp_path / "disk" / "runs").mkdir(parents=True)
  (tmp_path / "runs").symlink_to(tmp_path / "disk" / "runs")
  assert run_config.absolute_dir(tmp_path / "runs") == f"{tmp_path}/runs"
  assert run_config.absolute_dir(tmp_path / "runs" / ".." / "digits") == f"{tmp_path}/disk/digits"
