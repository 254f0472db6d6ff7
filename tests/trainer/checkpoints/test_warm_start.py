"""Warm starts: what is meant is taken or an error says what is not there; nothing else changes."""

import re

import gin
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import directory as checkpoint
from trainer.checkpoints import reader, warm_start

Settings = warm_start.WarmStartSettings

SHAPES = {"conv/kernel": [2, 2], "norm/gamma": [2], "norm/moving_mean": [2], "head/kernel": [2, 3]}


def make(shapes=SHAPES, **more):
  """A model's variables, all zeros."""
  return {
    name: tf.Variable(tf.zeros(shape), trainable="moving" not in name, name=name)
    for name, shape in {**shapes, **more}.items()
  }


def training(**more):
  """Those of a training with Keras's Adam."""
  step = tf.Variable(tf.constant(0, tf.int64), trainable=False, name="global_step")
  others = {
    name: tf.Variable(tf.zeros(shape), trainable=False, name=name)
    for name, shape in {
      "adam/iteration": [],
      "adam/learning_rate": [],
      "adam/conv_kernel_momentum": [2, 2],
      "ema/conv/kernel": [2, 2],
      "ema/updates": [],
    }.items()
  }
  return {"global_step": step, **make(**more), **others}


def save(path, variables, fill=1.0):
  """A checkpoint where the n-th variable is full of fill + n; its path."""
  values = {
    name: tf.cast(tf.fill(variable.shape, fill + i), variable.dtype)
    for i, (name, variable) in enumerate(variables.items())
  }
  directory = checkpoint.CheckpointDirectory(str(path))
  saved = directory.save(7, values)
  directory.wait()
  return saved


def loaded(variables):
  """Names of those that are not zero any more."""
  return [name for name, variable in variables.items() if np.any(variable.numpy())]


def test_warm_start_takes_all_of_the_model_but_step_and_slots(tmp_path, caplog):
  caplog.set_level("INFO", logger="absl")
  path = save(tmp_path, training())
  variables = training()
  report = warm_start.apply(path, variables)
  assert loaded(variables) == list(SHAPES)
  for name in SHAPES:
    np.testing.assert_array_equal(variables[name].numpy(), reader.read(path, [name])[name])
  assert report.loaded == {name: name for name in SHAPES}
  assert report.left_out == []
  assert "global_step" in report.unexpected
  assert "adam/conv_kernel_momentum" in report.unexpected
  assert f"Warm start from {path}:\n  loaded          4  conv/kernel, norm/gamma" in caplog.text
  assert "  left out        0\n  unexpected      6  adam/conv_kernel_momentum" in caplog.text


def test_a_folder_means_its_newest_checkpoint(tmp_path):
  path = save(tmp_path, make())
  assert warm_start.apply(tmp_path, make()).path == path
  with pytest.raises(
    errors.CheckpointNotFoundError, match="There are no weights at .*nowhere: expected a checkpoint"
  ):
    warm_start.apply(str(tmp_path / "nowhere"), make())


@pytest.mark.parametrize(
  ("patterns", "names"),
  [
    ("conv", ["conv/kernel"]),
    (".*/kernel", ["conv/kernel", "head/kernel"]),
    (["norm/gamma", "head"], ["norm/gamma", "head/kernel"]),
    ("(?!head/)", ["conv/kernel", "norm/gamma", "norm/moving_mean"]),
    (
      ["conv", "adam/"],
      ["conv/kernel", "adam/iteration", "adam/learning_rate", "adam/conv_kernel_momentum"],
    ),
    ([".*", "ema/conv/kernel$"], [*SHAPES, "ema/conv/kernel"]),
    (["conv", "global_step"], ["global_step", "conv/kernel"]),
  ],
)
def test_expressions_say_what_is_meant(patterns, names, tmp_path):
  save(tmp_path, training())
  variables = training()
  report = warm_start.apply(Settings(str(tmp_path), patterns), variables)
  assert loaded(variables) == names == list(report.loaded)
  assert report.left_out == [name for name in SHAPES if name not in names]


def test_slots_that_are_named_are_none_of_an_evaluation(tmp_path):
  """The same settings serve every method."""
  save(tmp_path, training())
  variables = make()
  warm_start.apply(
    Settings(
      str(tmp_path),
      [".*", "adam/"],
      var_name_to_prev_var_name={"ema/conv/kernel": "ema/conv/kernel"},
    ),
    variables,
  )
  assert loaded(variables) == list(SHAPES)


def test_the_caller_may_say_what_is_the_models_own(tmp_path):
  save(tmp_path, training())
  variables = training()
  warm_start.apply(str(tmp_path), variables, own={"conv/kernel", "ema/updates"})
  assert loaded(variables) == ["conv/kernel", "ema/updates"]


def test_what_is_not_there_is_an_error_that_names_it(tmp_path):
  path = save(tmp_path, make())
  variables = make(extra=[5], head__scale=[1])
  with pytest.raises(errors.CheckpointError) as raised:
    warm_start.apply(path, variables)
  message = str(raised.value)
  assert "  extra: not there; (5,) float32 in the model\n  head__scale: not there" in message
  assert "2 are not there, and 0 have another shape or kind" in message
  assert 'vars_to_warm_start selects variables ("(?!extra)" leaves a part out)' in message
  assert loaded(variables) == []


def test_head_of_another_shape_is_an_error_unless_left_out(tmp_path):
  path = save(tmp_path, make())
  variables = make(**{"head/kernel": [2, 10]})
  with pytest.raises(
    errors.CheckpointError,
    match=r"head/kernel: \(2, 3\) float32 there; \(2, "
    r"10\) float32 in the model",
  ) as raised:
    warm_start.apply(path, variables)
  assert "0 are not there, and 1 have another shape" in str(raised.value)
  assert loaded(variables) == []
  report = warm_start.apply(Settings(path, "(?!head)"), variables)
  assert report.left_out == ["head/kernel"]
  assert report.unexpected == ["head/kernel"]
  assert "head/kernel" not in loaded(variables)


def test_another_float_precision_fits_and_integers_do_not(tmp_path):
  directory = checkpoint.CheckpointDirectory(str(tmp_path))
  path = directory.save(1, {"a": tf.constant([1.5, 2.0], tf.bfloat16), "b": tf.constant([1, 2])})
  directory.wait()
  variables = make({"a": [2], "b": [2]})
  warm_start.apply(Settings(path, "a"), variables)
  np.testing.assert_array_equal(variables["a"].numpy(), [1.5, 2])
  with pytest.raises(
    errors.CheckpointError,
    match=r"b: \(2,\) int32 there; \(2,\) float32 in the "
    r"model",
  ):
    warm_start.apply(path, variables)


# ---------------------------------------------------------------- renames


def test_names_and_expressions_for_other_names(tmp_path):
  save(
    tmp_path,
    make(
      {
        "resnet/conv/weights": [2, 2],
        "resnet/head/weights": [2, 3],
        "old": [2],
        "norm/moving_mean": [2],
      }
    ),
  )
  variables = make()
  report = warm_start.apply(
    Settings(
      str(tmp_path),
      var_name_to_prev_var_name={r"(.*)/kernel": r"resnet/\1/weights", "norm/gamma": "old"},
    ),
    variables,
  )
  assert report.loaded == {
    "conv/kernel": "resnet/conv/weights",
    "norm/gamma": "old",
    "norm/moving_mean": "norm/moving_mean",
    "head/kernel": "resnet/head/weights",
  }
  np.testing.assert_array_equal(variables["norm/gamma"].numpy(), [3, 3])
  assert "conv/kernel (from resnet/conv/weights)" in str(report)


def test_a_name_that_is_not_there_after_renaming(tmp_path):
  save(tmp_path, make())
  with pytest.raises(errors.CheckpointError, match="conv/kernel: no conv/weights there"):
    warm_start.apply(
      Settings(str(tmp_path), var_name_to_prev_var_name={"conv/kernel": "conv/weights"}), make()
    )


@pytest.mark.parametrize(
  ("renames", "message"),
  [
    (
      {"conv/kernle": "old"},
      "has 'conv/kernle', and vars_to_warm_start selects no such variable. Its names are like "
      "conv/kernel",
    ),
    ({"head/kernel": "old"}, "has 'head/kernel', and vars_to_warm_start leaves it out"),
    ({"(": "old"}, r"has '\('; expected a regular expression"),
  ],
)
def test_renames_of_nothing(renames, message, tmp_path):
  save(tmp_path, make())
  with pytest.raises(errors.SettingError, match=message):
    warm_start.apply(Settings(str(tmp_path), "(?!head)", var_name_to_prev_var_name=renames), make())


def test_a_file_of_pytorch_with_its_names_and_its_order_of_axes(tmp_path):
  stored = {
    "encoder.head.weight": np.arange(6, dtype=np.float32).reshape(3, 2),
    "encoder.conv.weight": np.arange(4, dtype=np.float32).reshape(2, 2),
  }
  safetensors.numpy.save_file(stored, tmp_path / "model.safetensors")
  variables = make({"conv/kernel": [2, 2], "head/kernel": [2, 3]})
  report = warm_start.apply(
    Settings(
      str(tmp_path / "model.safetensors"),
      var_name_to_prev_var_name={"(.*)/kernel": r"encoder.\1.weight"},
      var_name_to_axes={".*/kernel": (1, 0)},
    ),
    variables,
  )
  assert report.loaded["head/kernel"] == "encoder.head.weight"
  for name, variable in variables.items():
    of_file = stored[f"encoder.{name.removesuffix('/kernel')}.weight"]
    np.testing.assert_array_equal(variable.numpy(), of_file.T)


def test_axes_that_do_not_fit_are_told(tmp_path):
  save(tmp_path, make())
  with pytest.raises(
    errors.SettingError, match="var_name_to_axes has 'haed.*selects no such variable"
  ):
    warm_start.apply(Settings(str(tmp_path), var_name_to_axes={"haed/.*": (1, 0)}), make())
  for order, shape in {(1, 0): r"\(2, 3\)", (0, 2, 1): r"\(2, 3\)"}.items():
    message = rf"head/kernel: {shape} float32 there, taken in the order {re.escape(str(order))}"
    with pytest.raises(errors.CheckpointError, match=message):
      warm_start.apply(Settings(str(tmp_path), var_name_to_axes={"head/kernel": order}), make())


@pytest.mark.parametrize("axes", [{"a": (1, 1)}, {"a": (1, 2)}, {"a": 1}, {"(": (0,)}, ["a"]])
def test_wrong_axes(axes):
  with pytest.raises(errors.SettingError, match="var_name_to_axes"):
    Settings("a", var_name_to_axes=axes)


def test_an_expression_that_matches_nothing(tmp_path):
  save(tmp_path, make())
  with pytest.raises(
    errors.SettingError,
    match="has 'haed/', and no variable of the model matches it. Its names are like head/kernel",
  ):
    warm_start.apply(Settings(str(tmp_path), [".*", "haed/"]), make())


# ----------------------------------------------------- settings, own variables


@pytest.mark.parametrize(
  ("arguments", "name"),
  [
    ((None,), "ckpt_to_initialize_from"),
    (("",), "ckpt_to_initialize_from"),
    (("a", None), "vars_to_warm_start"),
    (("a", []), "vars_to_warm_start"),
    (("a", [1]), "vars_to_warm_start"),
    (("a", "("), "vars_to_warm_start"),
  ],
)
def test_wrong_settings(arguments, name):
  with pytest.raises(errors.SettingError, match=f"WarmStartSettings.{name} "):
    Settings(*arguments)


@pytest.mark.parametrize("renames", ["a", {"a": 1}, ["a"]])
def test_wrong_renames(renames):
  with pytest.raises(errors.SettingError, match="var_name_to_prev_var_name is .*expected a dict"):
    Settings("a", var_name_to_prev_var_name=renames)


def test_a_path_is_settings_and_a_number_is_not(tmp_path):
  assert warm_start.as_settings(tmp_path) == Settings(str(tmp_path))
  with pytest.raises(
    errors.SettingError, match="warm_start_from is 7: expected a path or WarmStartSettings"
  ):
    warm_start.as_settings(7)


def test_gin_makes_settings():
  gin.parse_config(
    "WarmStartSettings.ckpt_to_initialize_from = "
    "'a'\nWarmStartSettings.vars_to_warm_start = ['b', 'c']"
  )
  assert Settings() == Settings("a", ["b", "c"])


# ------------------------------------------------------ from whole programs


def test_from_the_training_of_another_estimator(tmp_path, device):
  first = programs.estimator(tmp_path / "first").train(programs.train_input, steps=3)
  second = programs.estimator(tmp_path / "second", device=device)
  second.trace("train", programs.train_input)
  report = warm_start.apply(tmp_path / "first", second.variables)
  assert set(report.loaded) == {"w", "b"}
  np.testing.assert_array_equal(second.variables["w"].numpy(), first.get_variable_value("w"))
  assert second.variables["global_step"].numpy() == 0
