"""Checkpoints: whole or not there, the newest kept, and strict about what they hold."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import checkpoint, errors


def values(step):
  return {"global_step": tf.constant(step, tf.int64), "dense/kernel": tf.fill([2, 3], float(step))}


def names(directory):
  return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def directory(tmp_path):
  return checkpoint.CheckpointDirectory(str(tmp_path / "model"), keep=2)


def test_nothing_is_there_before_the_first(directory, tmp_path):
  assert (directory.steps(), directory.latest()) == ([], None)
  assert not (tmp_path / "model").exists()


def test_what_was_saved_is_read(directory):
  path = directory.save(7, values(7))
  assert path == directory.path(7) == directory.latest()
  assert checkpoint.read_step(path) == 7
  assert checkpoint.shapes(path) == {"global_step": ((), tf.int64), "dense/kernel": ((2, 3), tf.float32)}
  np.testing.assert_array_equal(checkpoint.read(path, ["dense/kernel"])["dense/kernel"], np.full([2, 3], 7.0))


def test_tensorflow_reads_it(directory, tmp_path):
  directory.save(7, values(7))
  found = tf.train.latest_checkpoint(str(tmp_path / "model"))
  assert found == directory.path(7)
  assert tf.train.load_checkpoint(found).get_tensor("dense/kernel")[0, 0] == 7


def test_the_newest_are_kept_by_step(directory, tmp_path):
  for step in (0, 5, 10, 100):
    directory.save(step, values(step))
  assert directory.steps() == [10, 100]
  assert names(tmp_path / "model") == [
      "checkpoint", "model.ckpt-10.data-00000-of-00001", "model.ckpt-10.index", "model.ckpt-100.data-00000-of-00001", "model.ckpt-100.index"]
  state = tf.train.get_checkpoint_state(str(tmp_path / "model"))
  assert list(state.all_model_checkpoint_paths) == [directory.path(10), directory.path(100)]


def test_zero_keeps_all(tmp_path):
  directory = checkpoint.CheckpointDirectory(str(tmp_path), keep=0)
  for step in range(7):
    directory.save(step, values(step))
  assert directory.steps() == list(range(7))


def test_saving_a_step_again_replaces_it(directory):
  directory.save(7, values(7))
  directory.save(7, {**values(7), "dense/kernel": tf.zeros([1])})
  assert directory.steps() == [7]
  assert checkpoint.shapes(directory.path(7))["dense/kernel"][0] == (1,)


def test_a_checkpoint_without_an_index_is_none(directory, tmp_path):
  """As a run that was killed leaves it."""
  directory.save(5, values(5))
  directory.save(10, values(10))
  (tmp_path / "model" / "model.ckpt-10.index").unlink()
  (tmp_path / "model" / ".writing-model.ckpt-15").mkdir()
  assert directory.latest() == directory.path(5)
  directory.save(15, values(15))
  assert directory.steps() == [5, 15]
  assert not (tmp_path / "model" / ".writing-model.ckpt-15").exists()


def test_a_folder_moves_with_its_checkpoints(directory, tmp_path):
  directory.save(5, values(5))
  shutil.move(tmp_path / "model", tmp_path / "elsewhere")
  moved = checkpoint.CheckpointDirectory(str(tmp_path / "elsewhere"))
  assert checkpoint.read_step(moved.latest()) == 5
  assert tf.train.latest_checkpoint(str(tmp_path / "elsewhere")) == moved.latest()
  assert str(tmp_path / "model") not in (tmp_path / "elsewhere" / "checkpoint").read_text()


def test_a_file_in_the_way_of_the_folder(tmp_path):
  (tmp_path / "model").write_text("a file")
  directory = checkpoint.CheckpointDirectory(str(tmp_path / "model"))
  assert directory.latest() is None
  with pytest.raises(errors.OutputError, match=r"The checkpoint of step 5 cannot be written to .*model \(--model_dir\)") as raised:
    directory.save(5, values(5))
  assert isinstance(raised.value, OSError)
  assert (tmp_path / "model").read_text() == "a file"


def test_a_save_that_fails_leaves_the_others(directory, tmp_path):
  directory.save(5, values(5))
  (tmp_path / "model" / ".writing-model.ckpt-10").write_text("a file in the way")
  with pytest.raises(errors.OutputError, match="step 10"):
    directory.save(10, values(10))
  assert directory.latest() == directory.path(5)
  assert checkpoint.read_step(directory.latest()) == 5


# ------------------------------------------------------------------- reading


def test_resolve_takes_a_checkpoint_or_a_folder(directory, tmp_path):
  for step in (5, 10):
    directory.save(step, values(step))
  assert checkpoint.resolve(directory.path(5)) == directory.path(5)
  assert checkpoint.resolve(str(tmp_path / "model")) == directory.path(10)
  for missing in (directory.path(6), str(tmp_path / "nowhere"), str(tmp_path)):
    with pytest.raises(errors.CheckpointNotFoundError, match="There is no checkpoint at .*expected a path such as .*model.ckpt-1000") as raised:
      checkpoint.resolve(missing)
    assert isinstance(raised.value, FileNotFoundError)


def test_names_that_are_not_in_it(directory):
  path = directory.save(5, values(5))
  with pytest.raises(errors.CheckpointError, match="model.ckpt-5 has no dense/bias, dense/scale"):
    checkpoint.read(path, ["dense/kernel", "dense/bias", "dense/scale"])


def test_a_checkpoint_without_a_step_is_of_step_0(directory):
  assert checkpoint.read_step(directory.save(5, {"w": tf.constant(1.0)})) == 0


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: bytes(byte ^ 0xFF for byte in data)], ids=["cut", "changed"])
def test_a_damaged_file_is_said_to_be_one(ending, damage, directory):
  path = directory.save(5, {"global_step": tf.constant(5, tf.int64), "w": tf.range(1000.0)})
  with open(path + ending, "rb") as file:
    data = file.read()
  with open(path + ending, "wb") as file:
    file.write(damage(data))
  with pytest.raises(errors.CheckpointError, match="model.ckpt-5 cannot be read"):
    checkpoint.read(path, ["w"])


# ------------------------------------------------------------------- restoring


def variables(**shapes):
  return {name.replace("__", "/"): tf.Variable(tf.zeros(shape), name=name) for name, shape in shapes.items()}


def test_a_restore_says_what_matched(directory):
  path = directory.save(5, {**values(5), "unused": tf.constant(1.0)})
  wanted = variables(dense__kernel=[2, 3])
  report = checkpoint.restore(path, wanted)
  assert report == checkpoint.RestoreReport(path, ["dense/kernel"], ["global_step", "unused"])
  assert str(report) == f"Restored 1 variables from {path}; 2 in it were not asked for"
  assert wanted["dense/kernel"].numpy()[0, 0] == 5


def test_a_restore_is_whole_or_not_at_all(directory):
  path = directory.save(5, {"a": tf.ones([2]), "b": tf.ones([3])})
  wanted = variables(a=[2], b=[4], c=[1])
  with pytest.raises(errors.CheckpointError) as raised:
    checkpoint.restore(path, wanted)
  message = str(raised.value)
  assert "1 of its 3 variables are missing, 1 have another shape" in message
  assert "c: not in the checkpoint; (1,) in the model" in message
  assert "b: (3,) in the checkpoint; (4,) in the model" in message
  assert "--model_dir" in message
  assert all(not variable.numpy().any() for variable in wanted.values())


def test_a_long_list_is_cut(directory):
  path = directory.save(5, {"a": tf.ones([2])})
  with pytest.raises(errors.CheckpointError) as raised:
    checkpoint.restore(path, variables(**{f"v{index}": [1] for index in range(50)}))
  assert str(raised.value).count("not in the checkpoint") == 20
  assert "..." in str(raised.value)


# -------------------------------------------------------- those of a training


def test_the_first_the_last_and_every_so_many_steps(tmp_path):
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=4, keep_checkpoint_max=0)
  estimator.train(programs.train_input, steps=10)
  assert checkpoint.CheckpointDirectory(str(tmp_path)).steps() == [0, 4, 8, 10]
  estimator.train(programs.train_input, max_steps=13)
  assert checkpoint.CheckpointDirectory(str(tmp_path)).steps() == [0, 4, 8, 10, 12, 13]


def test_the_five_newest_of_a_training(tmp_path):
  programs.estimator(tmp_path, save_checkpoints_steps=1).train(programs.train_input, steps=8)
  assert checkpoint.CheckpointDirectory(str(tmp_path)).steps() == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("setting", ["save_checkpoints_steps", "save_checkpoints_secs"])
def test_zero_leaves_the_first_and_the_last(setting, tmp_path):
  programs.estimator(tmp_path, **{setting: 0}).train(programs.train_input, steps=8)
  assert checkpoint.CheckpointDirectory(str(tmp_path)).steps() == [0, 8]


def test_saves_come_after_a_multiple_where_loops_are_longer(tmp_path):
  programs.estimator(tmp_path, save_checkpoints_steps=5, **programs.fixed_loops(4)).train(programs.train_input, steps=13)
  assert checkpoint.CheckpointDirectory(str(tmp_path)).steps() == [0, 8, 12, 13]


def test_a_model_dir_moves_and_is_gone_on_with(tmp_path):
  programs.estimator(tmp_path / "here").train(programs.train_input, steps=3)
  shutil.move(tmp_path / "here", tmp_path / "there")
  estimator = programs.estimator(tmp_path / "there").train(programs.train_input, steps=2)
  assert estimator.latest_step() == 5
  assert not (tmp_path / "here").exists()


def test_another_model_in_the_folder(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, steps=1)

  def wider(features, labels, mode, params):
    return programs.line({"x": tf.concat([features["x"]] * 2, 1)}, labels, mode, params)

  with pytest.raises(errors.CheckpointError, match=r"(?s)does not fit the model: .*w: \(3,\) in the checkpoint; \(6,\) in the model"):
    programs.estimator(tmp_path, wider).train(programs.train_input, steps=1)


def test_the_values_of_a_checkpoint_through_the_estimator(tmp_path):
  estimator = programs.estimator(tmp_path).train(programs.train_input, steps=2)
  assert estimator.get_variable_names() == sorted(["global_step", "w", "b", "sgd/iteration", "sgd/learning_rate"])
  np.testing.assert_array_equal(estimator.get_variable_value("w"), estimator.variables["w"].numpy())
  with pytest.raises(errors.CheckpointError, match="has no v"):
    estimator.get_variable_value("v")
