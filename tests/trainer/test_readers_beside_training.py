"""Whoever reads a model_dir is served while a training there goes on and keeps one checkpoint.

tests/slow/readers_beside_training.py does it with a training in a process of its own.
"""

import os
import shutil

import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import directory, initial_checkpoints, main, reader, retention, warm_start
from trainer.io import storage
from trainer.outputs import description, options


class Training:
  """Saves checkpoints of steps 5, 10, ... and keeps one; the weights of each are its step.

  Args:
    folder: its model_dir.
    begun: the model_dir of a training of five steps, which it goes on from.
  """

  def __init__(self, folder, begun):
    self.folder = str(folder)
    shutil.copytree(begun, folder)
    (first,) = folder.glob("model.ckpt-5.index")
    path = str(first.with_suffix(""))
    self._values = reader.read(path, list(reader.shapes(path)))
    self._checkpoints = directory.CheckpointDirectory(self.folder, retention.Retention(newest=1))
    self.step = 5
    self.save()

  def save(self):
    self.step += 5
    values = {name: tf.constant(value) for name, value in self._values.items()}
    values |= {
      "global_step": tf.constant(self.step, tf.int64),
      "w": tf.fill([programs.WIDTH], float(self.step)),
      "b": tf.constant(0.0),
    }
    self._checkpoints.save(self.step, values)
    self._checkpoints.wait()

  def save_before_read(self, monkeypatch, number):
    """Saves just before a reader opens a checkpoint for the time of this number."""
    opened, calls = 0, [(tf.compat.v1.train, "NewCheckpointReader"), (tf.raw_ops, "RestoreV2")]

    def saving(make):
      def call(*args, **kwargs):
        nonlocal opened
        opened += 1
        if opened == number:
          self.save()
        return make(*args, **kwargs)

      return call

    for owner, name in calls:
      monkeypatch.setattr(owner, name, saving(getattr(owner, name)))

  def leases(self):
    return [name for name in os.listdir(self.folder) if ".lease-" in name]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
  folder = tmp_path_factory.mktemp("begun")
  programs.estimator(folder).train(programs.train_input, steps=5)
  return folder


@pytest.fixture
def training(tmp_path, begun):
  return Training(tmp_path / "model", begun)


def step_of(predictions):
  """The step whose weights have made the predictions."""
  x, _ = programs.arrays(len(predictions))
  found = {round(float(row["y"] / sum(each)), 3) for row, each in zip(predictions, x, strict=True)}
  (step,) = found
  return step


def _evaluate(folder, elsewhere):
  return programs.estimator(folder).evaluate(programs.examples(8))["global_step"]


def _predict(folder, elsewhere):
  return step_of(list(programs.estimator(folder).predict(programs.examples(8))))


def _export(folder, elsewhere):
  estimator = trainer.Estimator(
    programs.line,
    folder,
    trainer.RunConfig(device="cpu"),
    eval_batch_size=8,
    export_options=options.ExportOptions(verify=False),
  )
  estimator.trace("eval", programs.examples(8))
  path = estimator.export_saved_model(str(elsewhere))
  served = tf.saved_model.load(path).signatures["serving_default"](x=tf.ones([1, programs.WIDTH]))
  step = description.read(path)["global_step"]
  assert float(served["y"][0]) == step * programs.WIDTH
  return step


def _get_variable_value(folder, elsewhere):
  return programs.estimator(folder).get_variable_value("w")[0]


def _get_variable_names(folder, elsewhere):
  assert "w" in programs.estimator(folder).get_variable_names()


def _warm_start(folder, elsewhere):
  w = tf.Variable(tf.zeros([programs.WIDTH]))
  warm_start.apply(folder, {"w": w}, own={"w"})
  return w.numpy()[0]


def _init_from_checkpoint(folder, elsewhere):
  w = tf.Variable(tf.zeros([programs.WIDTH]))
  call = initial_checkpoints.CheckpointInitializer.of(folder, {"w": "w"}, {"w": w})
  initial_checkpoints.apply([call], {"w": w})
  return w.numpy()[0]


def _show(folder, elsewhere):
  main.list_checkpoints(folder)
  return int(main.show(folder, stats=True)[0].rpartition("-")[2])


def _start_of_a_dry_run(folder, elsewhere):
  assert programs.estimator(folder).try_step("train", programs.train_input)


READS = (
  _evaluate,
  _predict,
  _export,
  _get_variable_value,
  _get_variable_names,
  _warm_start,
  _init_from_checkpoint,
  _show,
  _start_of_a_dry_run,
)


# The check that the checkpoint is undamaged opens it twice.
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("read", READS)
def test_a_reader_takes_another_where_the_chosen_one_is_gone(
  read, number, training, tmp_path, monkeypatch
):
  training.save_before_read(monkeypatch, number)
  held = 10 if read is _predict else None  # Predictions hold their checkpoint before they read it.
  assert read(training.folder, tmp_path / "elsewhere") in (training.step, held, None)
  assert training.leases() == []


def test_predictions_use_one_checkpoint_despite_other_calls(training):
  estimator = programs.estimator(training.folder)
  predictions = estimator.predict(programs.examples(24))
  found = [next(predictions)]
  training.save()
  assert estimator.evaluate(programs.examples(8))["global_step"] == 15
  training.save()
  found += predictions
  assert step_of(found) == 10
  assert training.leases() == []
  training.save()
  assert directory.CheckpointDirectory(training.folder).steps() == [training.step]


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("end", ["close", "forget"])
def test_unfinished_predictions_hold_no_checkpoint(end, is_begun, training):
  predictions = programs.estimator(training.folder).predict(programs.examples(24))
  if is_begun:
    next(predictions)
  assert len(training.leases()) == 1
  if end == "close":
    predictions.close()
  del predictions
  assert training.leases() == []


def test_predictions_that_cannot_begin_hold_no_checkpoint(training):
  estimator = programs.estimator(training.folder)
  with pytest.raises(errors.SettingError, match="hook"):
    estimator.predict(programs.examples(24), hooks=["no hook"])
  assert training.leases() == []


def test_predictions_in_a_read_only_folder_say_why_they_stop(training, monkeypatch):
  write = storage.write

  def refuse(path, content):
    if ".lease-" in path:
      raise tf.errors.PermissionDeniedError(None, None, "no")
    write(path, content)

  monkeypatch.setattr(storage, "write", refuse)
  estimator = programs.estimator(training.folder)
  predictions = estimator.predict(programs.examples(24))
  next(predictions)
  training.save()
  estimator.evaluate(programs.examples(8))
  with pytest.raises(errors.CheckpointNotFoundError, match="use another Estimator"):
    list(predictions)
