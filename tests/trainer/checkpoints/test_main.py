"""The command says what is in checkpoints, how two differ, and writes weights that Keras loads."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import warm
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import directory as checkpoint
from trainer.checkpoints import file_names, main, warm_start
from trainer.config import files
from trainer.estimator import keras_model


def save(path, step=7, **values):
  directory = checkpoint.CheckpointDirectory(str(path))
  saved = directory.save(
    step, {name.replace("__", "/"): tf.constant(value) for name, value in values.items()}
  )
  directory.wait()
  return saved


# --------------------------------------------------------------- list, show


def test_list(tmp_path):
  for step in (0, 5, 100):
    path = save(tmp_path, step, w=[1.0] * 500)
    os.utime(path + ".data-00000-of-00001", (1_600_000_000, 1_600_000_000))
    os.utime(path + ".index", (1_700_000_000, 1_700_000_000))
  lines = [line.split() for line in main.list_checkpoints(str(tmp_path))]
  assert lines[0] == ["step", "size", "written"]
  assert [line[0] for line in lines[1:]] == ["0", "5", "100"]
  assert [line[5:] for line in lines[1:]] == [[], [], ["newest"]]
  assert all(
    line[3].startswith("2023-11-1") and line[2] == "kB" and 2 <= float(line[1]) < 3
    for line in lines[1:]
  )
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"')
  assert [line.split()[5:] for line in main.list_checkpoints(str(tmp_path))[1:]] == [
    [],
    ["resumes", "here"],
    ["newest"],
  ]


def test_a_list_of_nothing_but_links_to_files_that_are_gone_ends(tmp_path, monkeypatch):
  (tmp_path / "model.ckpt-5.index").symlink_to(tmp_path / "gone")
  looks = iter([[5], [5]])
  monkeypatch.setattr(file_names, "steps", lambda names: next(looks))
  with pytest.raises(errors.CheckpointNotFoundError, match="There is no checkpoint in"):
    main.list_checkpoints(str(tmp_path))


def test_list_of_nothing(tmp_path):
  with pytest.raises(errors.CheckpointNotFoundError, match="There is no checkpoint in"):
    main.list_checkpoints(str(tmp_path))


def test_show(tmp_path):
  path = save(
    tmp_path,
    dense__kernel=[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
    global_step=7,
    empty=np.zeros([0], np.float32),
    note="text",
  )
  lines = main.show(str(tmp_path), stats=True)
  assert lines[0] == path
  assert [line.split() for line in lines[1:]] == [
    ["name", "shape", "dtype", "values", "size", "mean", "std"],
    ["dense/kernel", "2×3", "float32", "6", "24", "B", "2", "0.8165"],
    ["empty", "0", "float32", "0", "0", "B"],
    ["global_step", "scalar", "int32", "1", "4", "B", "7", "0"],
    ["note", "scalar", "string", "1", "0", "B"],
    ["4", "variables,", "8", "values,", "28", "B"],
  ]
  assert main.show(path, stats=False)[1].split() == ["name", "shape", "dtype", "values", "size"]


# -------------------------------------------------------------------- diff


# ---------------------------------------------------------- export-weights


def build_model():
  """For --model: layers whose names do not tell what they are."""
  return keras.Sequential(
    [
      keras.Input([programs.WIDTH]),
      keras.layers.Dense(4, "relu", name="first"),
      keras.layers.Dense(1, name="head"),
    ]
  )


def plain(features, labels, mode, params):
  """A model_fn of layers without names."""
  x = keras.layers.Dense(4, "relu")(features["x"])
  x = keras.layers.BatchNormalization()(x, training=mode == "train")
  y = keras.layers.Dense(1)(x)[:, 0]
  loss = tf.reduce_mean(tf.square(y - labels))
  return trainer.EstimatorSpec(
    mode,
    predictions=y,
    loss=loss,
    train_op=trainer.minimize(keras.optimizers.Adam(0.01), loss, ema_decay=0.9),
  )


def test_weights_export_takes_the_structure_from_model_flag(tmp_path):
  model_fn = keras_model.model_fn_from_keras(
    build_model, loss="mse", optimizer="adam", metrics=["mae"]
  )
  estimator = programs.estimator(tmp_path / "model", model_fn).train(programs.train_input, steps=5)
  output = str(tmp_path / "a.weights.h5")
  with pytest.raises(errors.SettingError, match="--model=module.function"):
    main.export_weights(str(tmp_path / "model"), output)
  main.export_weights(str(tmp_path / "model"), output, f"{__name__}.build_model")
  model = build_model()
  model.load_weights(output)
  np.testing.assert_array_equal(
    model.layers[1].kernel.numpy(), estimator.get_variable_value("sequential/head/kernel")
  )
  assert sorted(path.name for path in tmp_path.iterdir()) == ["a.weights.h5", "model"]


def test_weights_pass_to_another_model_by_safetensors_file(tmp_path):
  estimator = programs.estimator(tmp_path / "model", plain).train(programs.train_input, steps=5)
  output = str(tmp_path / "plain.safetensors")
  said = main.export_weights(str(tmp_path / "model"), output)
  assert said == [f"Wrote {output}, 8 variables from {estimator.latest_checkpoint()}"]
  assert [line.split()[0] for line in main.show(output)[2:-1]] == [
    "batch_normalization/beta",
    "batch_normalization/gamma",
    "batch_normalization/moving_mean",
    "batch_normalization/moving_variance",
    "dense/bias",
    "dense/kernel",
    "dense_1/bias",
    "dense_1/kernel",
  ]
  other = programs.estimator(tmp_path / "other", plain)
  other.trace("train", programs.train_input)
  report = warm_start.apply(output, other.variables)
  assert len(report.loaded) == 8
  for name in report.loaded:
    np.testing.assert_array_equal(other.variables[name].numpy(), estimator.get_variable_value(name))


@pytest.mark.parametrize(
  ("output", "model", "message"),
  [
    (None, None, "--weights_file is None: expected a file that ends in .weights.h5 or"),
    ("a.h5", None, "--weights_file is 'a.h5'"),
    ("a.weights.h5", None, "--model is None, .*give --model=module.function"),
    ("a.safetensors", "a.b", "--model is 'a.b', .*for .weights.h5 alone"),
    ("a.weights.h5", "nowhere.at_all", "--model is 'nowhere.at_all': expected module.function"),
    ("a.weights.h5", "trainer.nothing", "--model is 'trainer.nothing': expected module.function"),
    ("a.weights.h5", "build", "--model is 'build': expected module.function"),
  ],
)
def test_wrong_settings(output, model, message, tmp_path):
  with pytest.raises(errors.SettingError, match=message):
    main.export_weights(save(tmp_path, w=1.0), output, model)


# -------------------------------------------------------------- the command


def test_the_command_with_arguments_and_flags_in_any_order(tmp_path):
  path = save(tmp_path, w=[1.0, 3.0])
  done = warm.run("-m", "trainer.checkpoints", "show", path, "--stats")
  assert done.returncode == 0, done.stderr
  assert done.stdout.splitlines()[2].split() == ["w", "2", "float32", "2", "8", "B", "2", "1"]


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "The command is ''; expected one of list, show, export-weights"),
    (["lits", "a"], "The command is 'lits'; expected one of"),
    (["show", "a", "b"], "show got 2 arguments (a b); expected: show PATH"),
  ],
)
def test_wrong_commands(arguments, message):
  with pytest.raises(errors.SettingError) as raised:
    main.main(["program", *arguments])
  assert message in str(raised.value)


def test_help_needs_no_tensorflow():
  done = subprocess.run(
    [
      sys.executable,
      "-c",
      "import sys, runpy; sys.modules['tensorflow'] = None; sys.argv = "
      "['checkpoints', '--help']\n"
      "runpy.run_module('trainer.checkpoints', run_name='__main__', alter_sys=True)",
    ],
    cwd=files.ROOT,
    capture_output=True,
    text=True,
    timeout=60,
    check=False,
  )
  assert done.returncode == 0
  assert "python -m trainer.checkpoints list out/digits" in done.stdout
  assert "--weights_file" in done.stdout
