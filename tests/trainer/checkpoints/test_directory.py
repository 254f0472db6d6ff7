"""Checkpoints: whole or not there, the newest kept, and strict about what they hold."""

import functools
import os
import random
import shutil
import threading
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import programs
from tests.trainer.io import test_files
from trainer import errors
from trainer.checkpoints import commit, reader, retention
from trainer.checkpoints import directory as checkpoint
from trainer.reporting import evaluations_file


def values(step):
  return {"global_step": tf.constant(step, tf.int64), "dense/kernel": tf.fill([2, 3], float(step))}


def names(directory):
  return sorted(path.name for path in directory.iterdir())


class Directory(checkpoint.CheckpointDirectory):
  """One that has written when `save` returns."""

  def save(self, step, values):
    path = super().save(step, values)
    self.wait()
    return path


def make(path, newest=2, **settings):
  return Directory(str(path), retention.Retention(newest=newest), **settings)


@pytest.fixture
def directory(tmp_path):
  return make(tmp_path / "model")


def test_nothing_is_there_before_the_first(directory, tmp_path):
  assert (directory.steps(), directory.latest_valid()) == ([], None)
  assert not (tmp_path / "model").exists()


def test_what_was_saved_is_read(directory):
  path = directory.save(7, values(7))
  assert path == directory.path(7) == directory.latest_valid()
  assert reader.read_step(path) == 7
  assert reader.shapes(path) == {
    "global_step": ((), tf.int64),
    "dense/kernel": ((2, 3), tf.float32),
  }
  np.testing.assert_array_equal(
    reader.read(path, ["dense/kernel"])["dense/kernel"], np.full([2, 3], 7.0)
  )


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
    "checkpoint",
    "model.ckpt-10.data-00000-of-00001",
    "model.ckpt-10.index",
    "model.ckpt-100.data-00000-of-00001",
    "model.ckpt-100.index",
  ]
  state = tf.train.get_checkpoint_state(str(tmp_path / "model"))
  assert list(state.all_model_checkpoint_paths) == [directory.path(10), directory.path(100)]


def test_zero_keeps_all(tmp_path):
  directory = make(tmp_path, newest=0)
  for step in range(7):
    directory.save(step, values(step))
  assert directory.steps() == list(range(7))


def test_saving_a_step_again_replaces_it(directory):
  directory.save(7, values(7))
  directory.save(7, {**values(7), "dense/kernel": tf.zeros([1])})
  assert directory.steps() == [7]
  assert reader.shapes(directory.path(7))["dense/kernel"][0] == (1,)


def test_what_a_run_that_was_killed_leaves_is_no_checkpoint(directory, tmp_path):
  directory.save(5, values(5))
  directory.save(10, values(10))
  (tmp_path / "model" / "model.ckpt-10.index").unlink()
  (tmp_path / "model" / ".writing-model.ckpt-15").mkdir()
  resumed = make(tmp_path / "model")
  assert resumed.latest_valid() == directory.path(5)
  resumed.save(20, values(20))
  assert resumed.steps() == [5, 20]
  assert not (tmp_path / "model" / ".writing-model.ckpt-15").exists()


def test_a_save_is_under_way_until_it_is_waited_for(directory):
  path = directory.save(5, values(5))
  assert directory.latest_valid() == path
  assert reader.read_step(path) == 5


def test_a_value_is_that_of_the_save_whatever_comes_after(directory):
  variable = tf.Variable(tf.zeros([100_000]))
  path = directory.save(5, {"v": variable.read_value()})
  for _ in range(20):
    variable.assign_add(tf.ones([100_000]))
  directory.wait()
  assert not reader.read(path, ["v"])["v"].any()


def test_a_folder_moves_with_its_checkpoints(directory, tmp_path):
  directory.save(5, values(5))
  shutil.move(tmp_path / "model", tmp_path / "elsewhere")
  moved = checkpoint.CheckpointDirectory(str(tmp_path / "elsewhere"))
  assert reader.read_step(moved.latest_valid()) == 5
  assert tf.train.latest_checkpoint(str(tmp_path / "elsewhere")) == moved.latest_valid()
  assert str(tmp_path / "model") not in (tmp_path / "elsewhere" / "checkpoint").read_text()


def test_a_file_in_the_way_of_the_folder(tmp_path):
  (tmp_path / "model").write_text("a file")
  directory = make(tmp_path / "model")
  assert directory.latest_valid() is None
  with pytest.raises(
    errors.OutputError,
    match=r"Cannot write the checkpoint of step 5 to "
    r".*model \(--model_dir\)",
  ) as raised:
    directory.save(5, values(5))
  assert isinstance(raised.value, OSError)
  assert (tmp_path / "model").read_text() == "a file"


def test_a_save_that_fails_leaves_the_others(directory, tmp_path):
  directory.save(5, values(5))
  (tmp_path / "model" / "model.ckpt-10.index").mkdir()  # where the file should go
  with pytest.raises(errors.OutputError, match="step 10"):
    directory.save(10, values(10))
  assert directory.latest_valid() == directory.path(5)


def test_a_save_that_fails_is_told_to_the_thread_that_saves(tmp_path):
  directory = checkpoint.CheckpointDirectory(str(tmp_path / "model"))
  (tmp_path / "model" / "model.ckpt-10.index").mkdir(parents=True)
  with futures.ThreadPoolExecutor(1) as pool:
    pool.submit(directory.save, 10, values(10)).result(60)
    directory.wait()  # and is not told
    with pytest.raises(errors.OutputError, match="step 10"):
      pool.submit(directory.wait).result(60)
    pool.submit(directory.save, 10, values(10)).result(60)
  with pytest.raises(errors.OutputError, match="step 10"):
    directory.save(15, values(15))  # nobody else would be told any more


def test_a_save_that_fails_is_a_warning_where_that_is_asked_for(tmp_path, caplog):
  directory = make(tmp_path / "model", on_failure="warn")
  (tmp_path / "model").mkdir()
  (tmp_path / "model" / "model.ckpt-10.index").mkdir()
  directory.save(10, values(10))
  assert "Cannot write the checkpoint of step 10" in caplog.text
  directory.save(15, values(15))
  assert directory.latest_valid() == directory.path(15)


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path, monkeypatch):
  """What is written is what the variables were when it was asked for."""
  started, may_write = threading.Event(), threading.Event()
  write = checkpoint.CheckpointDirectory._write

  def slow_write(self, step, values):
    started.set()
    assert may_write.wait(30)
    write(self, step, values)

  monkeypatch.setattr(checkpoint.CheckpointDirectory, "_write", slow_write)
  directory = checkpoint.CheckpointDirectory(str(tmp_path))
  variable = tf.Variable(tf.ones([1000]))
  directory.save(1, {"w": variable.read_value()})
  assert started.wait(30)
  variable.assign_add(tf.ones([1000]))
  may_write.set()
  directory.wait()
  np.testing.assert_array_equal(reader.read(directory.path(1), ["w"])["w"], np.ones(1000))


# ------------------------------------------------------------------- damage


def spoil(path, kind, randomness):
  """Damages a checkpoint's files in one of the ways that disks and copies do; returns whether
  the checkpoint is still there to be found.
  """
  file = path + randomness.choice([".index", ".data-00000-of-00001"])
  with open(file, "rb") as opened:
    data = bytearray(opened.read())
  if kind == "missing":
    os.remove(file)
    return not file.endswith(".index")
  if kind == "cut":
    data = data[: randomness.randrange(len(data))]
  else:
    data[randomness.randrange(len(data))] ^= 1 << randomness.randrange(8)
  with open(file, "wb") as opened:
    opened.write(data)
  return True


def check_damaged(tmp_path, kind, seed):
  """The newest checkpoint is damaged: it is never restored as something that it was not, and
  the one before it is used with a word on that.
  """
  randomness = random.Random(seed)
  directory = make(tmp_path / str(seed), newest=0)
  for step in (1, 2):
    directory.save(
      step,
      {
        "global_step": tf.constant(step, tf.int64),
        "w": tf.random.stateless_normal([100], [step, seed]),
        "b": tf.fill([3], 1.5),
      },
    )
  whole = reader.read(directory.path(2), ["global_step", "w", "b"])
  found = spoil(directory.path(2), kind, randomness)
  # Of a later process: this one knows what it has written.
  used = make(tmp_path / str(seed)).latest_valid()
  if used == directory.path(2):  # the change was where nothing is kept
    for name, value in whole.items():
      np.testing.assert_array_equal(reader.read(used, [name])[name], value)
    return "harmless"
  assert used == directory.path(1)
  return "named" if found else "gone"


@pytest.mark.parametrize("kind", ["cut", "flipped", "missing"])
def test_damaged_checkpoint_is_named_and_previous_one_is_used(kind, tmp_path, caplog):
  outcomes = [check_damaged(tmp_path, kind, seed) for seed in range(12)]
  assert "named" in outcomes
  assert caplog.text.count("Using ") == outcomes.count("named")
  assert caplog.text.count("model.ckpt-2 is ") == outcomes.count("named")


@pytest.mark.parametrize("text", ["", "nonsense"])
def test_a_state_file_that_names_nothing_does_not_matter(text, directory, tmp_path):
  directory.save(5, values(5))
  (tmp_path / "model" / "checkpoint").write_text(text)
  assert directory.latest_valid() == directory.path(5)


def test_no_whole_checkpoint_is_an_error_and_not_a_new_beginning(directory):
  for step in (1, 2):
    path = directory.save(step, values(step))
    os.truncate(path + ".data-00000-of-00001", 3)
  with pytest.raises(
    errors.CheckpointDamagedError,
    match="model.ckpt-2 is damaged.*model.ckpt-1 is damaged.*from a backup",
  ):
    directory.latest_valid()


def test_a_training_beside_a_damaged_newest_checkpoint(tmp_path):
  """It is the newest for none of those who ask: not for the start, for hooks, for evaluations
  or for a rollback.
  """
  programs.estimator(tmp_path, save_checkpoints_steps=5).train(programs.train_input, steps=20)
  cut(str(tmp_path / "model.ckpt-20"))
  estimator = programs.estimator(tmp_path, save_checkpoints_steps=1, keep_checkpoint_max=2)
  told = []

  class Listener(tf.compat.v1.train.CheckpointSaverListener):
    def after_save(self, session, step):
      told.append(
        (step, estimator.latest_step(), estimator.evaluate(programs.examples(8))["global_step"])
      )

  estimator.train(programs.train_input, max_steps=18, saving_listeners=[Listener()])
  assert told == [(16, 16, 16), (17, 17, 17), (18, 18, 18)]
  assert estimator.latest_checkpoint() == str(tmp_path / "model.ckpt-18")
  assert estimator.checkpoint_steps() == [17, 18, 20]


def test_training_goes_on_from_the_one_before_a_damaged_one(tmp_path, caplog):
  programs.estimator(tmp_path, save_checkpoints_steps=2).train(programs.train_input, steps=4)
  os.truncate(tmp_path / "model.ckpt-4.data-00000-of-00001", 3)
  whole = programs.estimator(tmp_path / "whole").train(programs.train_input, steps=6)
  resumed = programs.estimator(tmp_path).train(programs.train_input, max_steps=6)
  assert "model.ckpt-4 is damaged" in caplog.text
  np.testing.assert_array_equal(resumed.variables["w"].numpy(), whole.variables["w"].numpy())


def cut(path):
  os.truncate(path + ".data-00000-of-00001", 3)


def saved(path, steps, newest, **settings):
  """The directory of a process that has found what is there, and saved at these steps."""
  directory = make(path, newest, **settings)
  for step in steps:
    directory.save(step, values(step))
  return directory


def test_damaged_newest_checkpoint_does_not_count_as_kept(tmp_path, caplog):
  saved(tmp_path, (10, 20, 30), newest=0)
  cut(str(tmp_path / "model.ckpt-30"))
  for newest, left in ((2, [20, 21, 30]), (1, [21, 30])):
    directory = saved(tmp_path, (21,), newest)
    assert directory.steps() == left
    assert caplog.text.count("model.ckpt-30 is damaged") == 1
    assert "This checkpoint does not count as kept." in caplog.text
    assert (
      tf.train.latest_checkpoint(str(tmp_path)) == directory.latest_valid() == directory.path(21)
    )
    caplog.clear()


def test_damaged_older_checkpoint_does_not_count_as_kept(tmp_path):
  saved(tmp_path, (10, 20, 30, 40), newest=0)
  cut(str(tmp_path / "model.ckpt-30"))
  assert saved(tmp_path, (50,), newest=3).steps() == [20, 30, 40, 50]


def test_a_damaged_best_checkpoint_does_not_count(tmp_path):
  saved(tmp_path, (10, 20, 30), newest=0)
  for step, loss in ((10, 0.3), (20, 0.1), (30, 0.5)):
    evaluations_file.add(str(tmp_path), "", step, {"loss": loss})
  cut(str(tmp_path / "model.ckpt-20"))
  scores = functools.partial(evaluations_file.read_metric, str(tmp_path), "", "loss")
  directory = Directory(str(tmp_path), retention.Retention(newest=1, best=1), read_scores=scores)
  directory.save(40, values(40))
  assert directory.steps() == [10, 20, 40]


def test_good_checkpoint_replaces_damaged_one_of_same_step(tmp_path):
  saved(tmp_path, (10, 20), newest=0)
  cut(str(tmp_path / "model.ckpt-20"))
  directory = saved(tmp_path, (15, 20), newest=2)
  assert directory.steps() == [15, 20]
  assert directory.latest_valid() == directory.path(20)
  assert reader.read_step(directory.path(20)) == 20


def test_once_it_is_old_a_damaged_one_goes_as_any_other(tmp_path):
  saved(tmp_path, (10, 20), newest=0)
  cut(str(tmp_path / "model.ckpt-20"))
  assert saved(tmp_path, (19, 21, 22), newest=2).steps() == [21, 22]


def test_a_checkpoint_is_read_once_to_know_that_it_is_whole(tmp_path, monkeypatch):
  saved(tmp_path, (10, 20, 30), newest=0)
  read, verify = [], reader.verify
  monkeypatch.setattr(reader, "verify", lambda path: (read.append(path), verify(path)))
  directory = make(tmp_path, newest=3)
  for step in (40, 50):
    assert directory.latest_valid() is not None
    directory.save(step, values(step))
  assert read == [directory.path(30), directory.path(20)]  # 10 went without a look at it
  cut(directory.path(50))
  assert directory.latest_valid() == directory.path(40)
  assert read[2:] == [directory.path(50)]


def test_all_of_a_large_checkpoint_is_verified(directory, monkeypatch):
  monkeypatch.setattr(reader, "_PORTION_BYTES", 100)
  path = directory.save(5, {f"v{number}": tf.fill([20], float(number)) for number in range(7)})
  reader.verify(path)
  with open(path + ".data-00000-of-00001", "r+b") as file:
    file.seek(-1, os.SEEK_END)
    file.write(b"x")
  with pytest.raises(errors.CheckpointDamagedError):
    reader.verify(path)


def test_a_checkpoint_out_of_reach_is_not_damaged(tmp_path, monkeypatch, caplog):
  saved(tmp_path, (10, 20, 30), newest=0)

  def unreachable(**arguments):
    raise tf.errors.UnavailableError(None, None, "the network is down")

  with monkeypatch.context() as patch:
    patch.setattr(tf.raw_ops, "RestoreV2", unreachable)
    with pytest.raises(
      errors.CheckpointError,
      match="Cannot read the checkpoint .*/model.ckpt-30 now: the network is down",
    ) as raised:
      make(tmp_path).latest_valid()
    assert not isinstance(raised.value, errors.CheckpointDamagedError)
    directory = saved(tmp_path, (40,), newest=2)
  assert "Octet removes no checkpoint this time" in caplog.text
  assert directory.steps() == [10, 20, 30, 40]
  directory.save(50, values(50))
  assert directory.steps() == [40, 50]


@pytest.mark.parametrize("killed_at", range(3))
def test_kill_during_a_checkpoint_overwrite_loses_none(killed_at, tmp_path, monkeypatch):
  """One of the same step is there: its index is removed, the new data are moved, the new index
  is moved.
  """
  saved(tmp_path, (10, 20), newest=0)
  calls = []

  def unless_killed(method):
    def call(*arguments, **more):
      if len(calls) == killed_at:
        raise SystemExit
      calls.append(method)
      return method(*arguments, **more)

    return call

  with monkeypatch.context() as patch:
    for name in ("remove", "rename"):
      patch.setattr(tf.io.gfile, name, unless_killed(getattr(tf.io.gfile, name)))
    with pytest.raises(SystemExit):
      make(tmp_path, newest=0).save(20, {**values(20), "dense/kernel": tf.fill([2, 3], 21.0)})
  later = make(tmp_path, newest=0)
  later.recover()
  assert later.steps() == [10, 20]
  assert later.latest_valid() == later.path(20)
  assert reader.read(later.path(20), ["dense/kernel"])["dense/kernel"][0, 0] == 21
  assert not list(tmp_path.glob(".writing-*"))


def test_what_was_not_written_to_its_end_is_not_put_in_its_place(tmp_path):
  saved(tmp_path, (20,), newest=0)
  aside = tmp_path / ".writing-model.ckpt-20"
  aside.mkdir()
  for ending in (".index", ".data-00000-of-00001"):
    shutil.move(str(tmp_path / "model.ckpt-20") + ending, aside)
  cut(str(aside / "model.ckpt-20"))
  make(tmp_path).recover()
  assert names(tmp_path) == ["checkpoint"]


# ------------------------------------------------------------------- reading


def test_resolve_takes_a_checkpoint_or_a_folder(directory, tmp_path):
  for step in (5, 10):
    directory.save(step, values(step))
  assert checkpoint.resolve(directory.path(5)) == directory.path(5)
  assert checkpoint.resolve(str(tmp_path / "model")) == directory.path(10)
  for missing in (directory.path(6), str(tmp_path / "nowhere"), str(tmp_path)):
    with pytest.raises(
      errors.CheckpointNotFoundError,
      match="There is no checkpoint at .*expected a path such as .*model.ckpt-1000",
    ) as raised:
      checkpoint.resolve(missing)
    assert isinstance(raised.value, FileNotFoundError)
  for ending in (".index", ".data-00000-of-00001"):
    with pytest.raises(errors.CheckpointNotFoundError, match="such as .*/model.ckpt-5, or"):
      checkpoint.resolve(directory.path(5) + ending)


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
  programs.estimator(tmp_path, save_checkpoints_steps=5, **programs.fixed_loops(4)).train(
    programs.train_input, steps=13
  )
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

  with pytest.raises(
    errors.CheckpointError,
    match=r"(?s)does not fit the model: .*w: \(3,\) in "
    r"the checkpoint; \(6,\) in the model",
  ):
    programs.estimator(tmp_path, wider).train(programs.train_input, steps=1)


def test_the_values_of_a_checkpoint_through_the_estimator(tmp_path):
  estimator = programs.estimator(tmp_path).train(programs.train_input, steps=2)
  assert estimator.get_variable_names() == sorted(
    ["global_step", "w", "b", "sgd/iteration", "sgd/learning_rate"]
  )
  np.testing.assert_array_equal(estimator.get_variable_value("w"), estimator.variables["w"].numpy())
  with pytest.raises(errors.CheckpointError, match="has no v"):
    estimator.get_variable_value("v")


@pytest.mark.parametrize("name", ["a[b]", "a*b", "a?b", "a\\b"])
def test_a_folder_whose_name_looks_like_a_pattern(name, tmp_path):
  directory = make(tmp_path / name, newest=1)
  for step in (5, 10):
    path = directory.save(step, values(step))
  assert make(tmp_path / name).latest_valid() == path
  assert reader.read(path, ["dense/kernel"])["dense/kernel"][0, 0] == 10
  assert names(tmp_path / name) == ["checkpoint", *_files_of(10)]


def _files_of(step):
  return [f"model.ckpt-{step}.data-00000-of-00001", f"model.ckpt-{step}.index"]


def test_an_old_checkpoint_that_cannot_be_removed_is_a_warning(tmp_path, monkeypatch, caplog):
  directory = make(tmp_path, newest=1)
  directory.save(1, values(1))
  remove = commit.remove

  def refuse(path, data_files):
    raise tf.errors.PermissionDeniedError(None, None, f"{path}.index; Operation not permitted")

  monkeypatch.setattr(commit, "remove", refuse)
  for step in (2, 3):
    directory.save(step, values(step))
  assert directory.steps() == [1, 2, 3]
  assert caplog.text.count("/model.ckpt-1: Operation not permitted. It stays") == 1
  monkeypatch.setattr(commit, "remove", remove)
  directory.save(4, values(4))
  assert directory.steps() == [4]


def test_what_killed_processes_left_goes_at_the_first_save(tmp_path):
  dead = test_files.name_of_a_dead_process()
  (tmp_path / f"evaluations.json.writing-{dead}").touch()
  (tmp_path / f"model.ckpt-7.lease-0-{dead}").touch()
  make(tmp_path).save(8, values(8))
  assert names(tmp_path) == ["checkpoint", *_files_of(8)]
