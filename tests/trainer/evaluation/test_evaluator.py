"""Every example counts once: against numpy, on one core and on two, whatever the sizes."""

import errno

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.reporting import evaluations_file


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
  """A line that is trained for 3 steps."""
  path = tmp_path_factory.mktemp("model")
  programs.estimator(path).train(programs.train_input, steps=3)
  return path


@pytest.fixture(scope="module")
def one_core(model_dir):
  return programs.estimator(model_dir, batch_size=16)


@pytest.fixture(scope="module")
def two_cores(model_dir):
  return programs.estimator(model_dir, device="cpu:2", batch_size=16)


@pytest.fixture(scope="module")
def xla_devices(model_dir):
  pytest.importorskip("jax")
  three = trainer.TPUConfig(steps_per_program=3)
  return programs.estimator(model_dir, device="xla:8", batch_size=16, tpu_config=three)


@pytest.fixture(
  params=["one_core", "two_cores", pytest.param("xla_devices", marks=pytest.mark.long)]
)
def trained(request):
  """One core, two, and eight XLA devices, of which three groups are one program. Each is traced
  once for the whole file.
  """
  return request.getfixturevalue(request.param)


def reference(estimator, count):
  """(loss, mean absolute error) in float64."""
  x, y = (array.astype(np.float64) for array in programs.arrays(count))
  error = x @ estimator.get_variable_value("w") + estimator.get_variable_value("b") - y
  return np.mean(error**2), np.mean(np.abs(error))


@pytest.mark.parametrize("count", [1003, 1, 7, 16, 17, 130])
def test_loss_and_metrics_are_those_of_numpy(trained, count):
  result = trained.evaluate(programs.examples(count))
  loss, absolute_error = reference(trained, count)
  assert result == dict(
    loss=pytest.approx(loss, rel=1e-6),
    absolute_error=pytest.approx(absolute_error, rel=1e-6),
    global_step=3,
  )
  assert [type(value) for value in result.values()] == [float, float, int]


def test_a_partial_batch_in_the_middle_counts_too(trained):
  per_core = 16 // trained.device.replicas

  def input_fn(params):
    first = programs.examples(per_core * 3 + 1)(params)
    x, y = programs.arrays(40)
    return first.concatenate(
      tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(params["batch_size"])
    )

  result = trained.evaluate(input_fn)
  count = per_core * 3 + 1
  loss = (reference(trained, count)[0] * count + reference(trained, 40)[0] * 40) / (count + 40)
  assert result["loss"] == pytest.approx(loss, rel=1e-6)


def test_steps_are_global_batches(trained):
  result = trained.evaluate(programs.examples(100), steps=2)
  assert result["loss"] == pytest.approx(reference(trained, 32)[0], rel=1e-6)


def test_steps_beyond_the_data_are_one_sentence(trained, caplog):
  with caplog.at_level("WARNING", logger="absl"):
    result = trained.evaluate(programs.examples(20), steps=50)
  assert result["loss"] == pytest.approx(reference(trained, 20)[0], rel=1e-6)
  assert "The evaluation ended after 2 of 50 steps: the input has 20 examples." in caplog.text


def test_exactly_as_many_steps_as_there_are_is_nothing_to_say(trained, caplog):
  with caplog.at_level("WARNING", logger="absl"):
    trained.evaluate(programs.examples(20), steps=2)
  assert "ended after" not in caplog.text


def test_the_number_of_examples_is_told(one_core, caplog):
  with caplog.at_level("INFO", logger="absl"):
    one_core.evaluate(programs.examples(43), name="small")
  assert "Evaluated 43 examples (small): loss = " in caplog.text


def test_an_empty_set_is_an_error(trained):
  with pytest.raises(
    errors.InputError, match="eval input_fn .*input_fn gave no example to evaluate"
  ):
    trained.evaluate(programs.examples(0))


@pytest.mark.parametrize("steps", [0, -1, 1.0, True])
def test_steps_are_a_positive_int(one_core, steps):
  with pytest.raises(
    errors.SettingError, match=f"evaluate: steps is {steps}; expected an int greater than 0"
  ):
    one_core.evaluate(programs.examples(16), steps=steps)


def test_an_evaluation_changes_nothing(trained):
  first = trained.evaluate(programs.examples(43))
  before = {name: variable.numpy() for name, variable in trained.variables.items()}
  assert trained.evaluate(programs.examples(43)) == first
  for name, value in before.items():
    np.testing.assert_array_equal(trained.variables[name].numpy(), value)


def test_names_count_apart(one_core):
  results = [
    one_core.evaluate(programs.examples(count), name=name)
    for count, name in ((43, "a"), (16, "b"), (43, "a"))
  ]
  assert results[0] == results[2] != results[1]


def test_a_nan_in_one_example_is_in_the_result(one_core):
  def input_fn(params):
    return programs.examples(20)(params).map(
      lambda x, y: (x, tf.where(y == tf.reduce_max(y), np.nan, y))
    )

  assert np.isnan(one_core.evaluate(input_fn)["loss"])


def test_hooks_see_the_result(one_core):
  seen = []
  result = one_core.evaluate(
    programs.examples(16),
    hooks=[lambda step, metrics, estimator: seen.append((step, metrics, estimator))],
  )
  assert seen == [(3, result, one_core)]


def test_without_a_checkpoint(tmp_path):
  with pytest.raises(
    errors.CheckpointNotFoundError, match=f"There is no checkpoint in {tmp_path}"
  ) as raised:
    programs.estimator(tmp_path).evaluate(programs.examples(16))
  assert isinstance(raised.value, FileNotFoundError)
  assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_is_named(tmp_path):
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=2).train(
    programs.train_input, steps=4
  )
  losses = {}
  for step in (0, 2, 4):
    result = estimator.evaluate(
      programs.examples(43), checkpoint_path=str(tmp_path / f"model.ckpt-{step}")
    )
    assert result["global_step"] == step
    losses[step] = result["loss"]
  assert losses[0] > losses[2] > losses[4]
  assert estimator.evaluate(programs.examples(43))["loss"] == losses[4]
  assert (
    estimator.evaluate(programs.examples(43), checkpoint_path=str(tmp_path))["loss"] == losses[4]
  )


def test_a_loss_that_is_no_mean_is_that_of_real_examples(model_dir):
  """What was padded is in no batch: the largest error of a partial batch is that of its
  examples.
  """

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    spec.loss = (
      tf.reduce_max(tf.abs(spec.eval_metrics[1]["y"] - labels))
      if mode == trainer.ModeKeys.EVAL
      else spec.loss
    )
    return spec

  estimator = programs.estimator(model_dir, model_fn, batch_size=16)
  x, y = programs.arrays(19)
  error = np.abs(x @ estimator.get_variable_value("w") + estimator.get_variable_value("b") - y)
  assert estimator.evaluate(programs.examples(19))["loss"] == pytest.approx(
    (error[:16].max() * 16 + error[16:].max() * 3) / 19, rel=1e-6
  )


def unwritten(cause):
  """Takes the place of evaluations_file.add in a folder that cannot be written."""

  def add(*_):
    raise errors.OutputError("The evaluation cannot be noted.") from cause

  return add


def test_read_only_folder_is_evaluated_without_a_record(trained, monkeypatch, caplog):
  read_only = OSError(errno.EROFS, "Read-only file system")
  monkeypatch.setattr(evaluations_file, "add", unwritten(read_only))
  assert trained.evaluate(programs.examples(11))["loss"] > 0
  assert "This evaluation leaves no record." in caplog.text


def test_on_a_full_disk_the_values_are_said_before_the_error(trained, monkeypatch, caplog):
  full = OSError(errno.ENOSPC, "No space left on device")
  monkeypatch.setattr(evaluations_file, "add", unwritten(full))
  caplog.set_level("INFO", logger="absl")
  with pytest.raises(errors.OutputError, match="cannot be noted"):
    trained.evaluate(programs.examples(11))
  assert "Evaluated 11 examples: loss = " in caplog.text
