"""Files and bindings are loaded in order and locked; texts are saved."""

import gin
import pytest

from tests.trainer import configurables
from trainer import config, errors
from trainer.devices import tensorflow_package

START = f"import {configurables.__name__}\nstart.model_fn = @line.model_fn\n"


@pytest.mark.parametrize(
  ("text", "said"),
  [
    (
      "digits.input_fn.training = 'x'",
      r"digits\.input_fn\.training is 'x'; expected True or False",
    ),
    ("a/RunConfig.evaluate_ema = 0.5", r"a/RunConfig\.evaluate_ema is 0\.5; expected"),
    ("RunConfig.save_summary_steps = 0", r"save_summary_steps is 0; expected an int greater than"),
  ],
)
def test_wrong_type_is_reported_with_its_line_though_unused(text, said, tmp_path):
  path = tmp_path / "a.gin"
  path.write_text(f"import input_pipelines.digits\n{text}\n")
  with pytest.raises(errors.SettingError, match=rf"a\.gin:2: .*{said}"):
    config.load([path], ["run.model_fn = @digits.input_fn"])
  path.write_text("import input_pipelines.digits\nB = True\ndigits.input_fn.training = %B\n")
  config.load([path], ["run.model_fn = @digits.input_fn"])


def test_later_files_and_bindings_win(tmp_path):
  (tmp_path / "a.gin").write_text(
    f"{START}start.steps = 1\nstart.params = 1\nSIZE = 1\nline.layer.units = %SIZE\n"
  )
  (tmp_path / "b.gin").write_text("start.steps = 2\nstart.params = 2\n")
  config.load(
    [tmp_path / "a.gin", tmp_path / "b.gin"],
    ["start.steps = 3", "SIZE = 4"],
    root=configurables.ROOT,
  )
  assert configurables.start() == {"input": None, "model": (8, None, 4), "steps": 3, "params": 2}


def test_configuration_is_locked_and_loading_replaces_it():
  config.load([], [f"{START}start.steps = 1"], root=configurables.ROOT)
  with pytest.raises(RuntimeError, match="locked"):
    gin.bind_parameter("start.steps", 2)
  config.load([], [f"{START}start.params = 1"], root=configurables.ROOT)
  assert configurables.start()["steps"] is None
  config.clear()
  gin.bind_parameter("start.steps", 2)


def test_kerass_names_need_no_import():
  config.load(
    [],
    [f"{START}line.model_fn.optimizer = @keras.optimizers.SGD()\nSGD.learning_rate = 0.25"],
    root=configurables.ROOT,
  )
  assert float(configurables.start()["model"][1].learning_rate.numpy()) == 0.25


def test_a_file_without_a_model_is_told_what_to_add(tmp_path):
  path = tmp_path / "a.gin"
  path.write_text("run.train_steps = 3\n")
  with pytest.raises(
    errors.SettingError,
    match=r"^run\.model_fn needs a value: add "
    r"`run\.model_fn = ",
  ):
    config.load([path])


def test_a_tensorflow_that_is_not_there_is_told(monkeypatch):
  monkeypatch.setattr(tensorflow_package, "installed", lambda: tensorflow_package.Installed({}))
  with pytest.raises(errors.SettingError, match="This Python has no TensorFlow"):
    config.load(root="trainer.surely_not_there.run")
