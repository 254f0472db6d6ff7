"""What a training decides before its first step and at the end of its data.

`tests/trainer/estimator` has whole trainings.
"""

import contextlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import data_position, reader
from trainer.io import storage
from trainer.loop import training


def input_fn(params):
  raise AssertionError("called")


def call(**settings):
  return training.Call(source=input_fn, estimator=None, hooks=(), batch_size=8, **settings)


def made(**parts):
  """A Training with these parts alone."""
  return training.Training(**dict.fromkeys(training.Training.__dataclass_fields__) | parts)


@pytest.mark.parametrize(
  ("settings", "has_ended", "is_complete"),
  [
    ({"max_steps": 20}, False, True),
    ({"max_steps": 19}, False, True),
    ({"max_steps": 21}, False, False),
    ({"steps": 5}, True, False),
    ({}, True, False),
    ({"ends_with_input": True}, True, True),
    ({"ends_with_input": True}, False, False),
    ({"ends_with_input": True, "max_steps": 30}, True, True),
  ],
)
def test_a_training_is_complete_by_its_steps_or_its_data(
  monkeypatch, caplog, settings, has_ended, is_complete
):
  monkeypatch.setattr(reader, "read_step", lambda path: 20)
  monkeypatch.setattr(data_position, "has_ended", lambda path, max_steps: has_ended)
  with caplog.at_level("INFO", logger="absl"):
    assert training._is_complete("/run/model.ckpt-20", call(**settings)) is is_complete
  assert bool(caplog.records) is is_complete


def begun(final_step=None, start=0, **settings):
  given = types.SimpleNamespace(start=start, input_fn=input_fn)
  return types.SimpleNamespace(call=call(**settings), input=given, final_step=final_step)


def position():
  marks = []
  return types.SimpleNamespace(marks=marks, mark_ended=lambda *mark: marks.append(mark))


def test_an_input_without_a_batch_is_an_error():
  with pytest.raises(errors.InputError, match="The train input_fn input_fn gave no batch"):
    made(position=position())._mark_data_ended(begun(), 0, has_stepped=False)


@pytest.mark.parametrize(("start", "has_stepped"), [(160, False), (0, True), (160, True)])
def test_a_resumed_training_may_have_no_data_left(caplog, start, has_stepped):
  where = position()
  one = begun(30, start, ends_with_input=True)
  made(position=where)._mark_data_ended(one, 20, has_stepped)
  assert where.marks == [(True, 30)]
  [record] = caplog.records
  assert record.getMessage() == "Training ended: input exhausted at step 20 of 30"
  assert record.levelname == "WARNING"


@pytest.mark.parametrize("end", ["data", "max_steps", "hook"])
def test_an_end_between_two_updates_is_told(end, tmp_path, caplog):
  """The gradient stays in the checkpoint: a training that continues is as if it had not ended."""

  def model_fn(features, labels, mode, params):
    w = tf.Variable(0.0, name="w")
    loss = tf.square(w - tf.reduce_mean(tf.cast(features, tf.float32)))
    train_op = trainer.minimize(keras.optimizers.SGD(0.5), loss, accumulate_steps=2)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  def numbers(params):
    return tf.data.Dataset.range(3 if end == "data" else 9).batch(1, drop_remainder=True)

  estimator = programs.estimator(tmp_path, model_fn, batch_size=1, **programs.fixed_loops(1))
  hooks = [lambda step, metrics, estimator: end == "hook" and step == 3]
  estimator.train(numbers, max_steps=3 if end == "max_steps" else None, hooks=hooks)
  assert estimator.get_variable_value("w") == 0.5  # the mean of 0 and 1
  (message,) = [each for each in caplog.messages if "accumulate_steps" in each]
  assert "Training ended at step 3, and minimize.accumulate_steps = 2 updates" in message

  caplog.clear()
  following = tf.data.Dataset.from_tensors(np.int64(3)).batch(1, drop_remainder=True)
  estimator.train(lambda params: following, steps=1)
  assert estimator.get_variable_value("w") == 2.5  # the mean of 2 and 3
  assert "accumulate_steps" not in caplog.text


class Folder:
  """The lock, the checkpoints and the workers of a model_dir."""

  def __init__(self, is_new=False, steps=(), chief_start=None):
    self.went_back = False
    self.is_new, self.found, self.chief_start = is_new, list(steps), chief_start
    self.device = types.SimpleNamespace(is_chief=chief_start is None, host=3)

  def take(self):
    return self.is_new

  def steps(self):
    return self.found

  def go_back(self):
    self.went_back = True

  def broadcast_from_chief(self, value):
    return value if self.chief_start is None else self.chief_start


def take(folder, start=10, model_dir="/run"):
  made(lock=folder, checkpoints=folder, workers=folder, model_dir=model_dir)._take_model_dir(start)
  return folder.went_back


@pytest.fixture
def folders(monkeypatch):
  found = []
  monkeypatch.setattr(storage, "makedirs", found.append)
  return found


def test_a_folder_is_made_and_taken(folders):
  assert take(Folder()) is True
  assert take(Folder(is_new=True)) is True
  assert take(Folder(steps=[10])) is True  # a training that goes on
  assert take(Folder(chief_start=10)) is False  # the chief alone moves files
  assert folders == ["/run"] * 4


def test_a_folder_that_another_training_has_filled_is_refused(folders):
  folder = Folder(is_new=True, steps=[10])
  with pytest.raises(errors.ModelDirBusyError, match=r"/run \(--model_dir\) after this one began"):
    take(folder)
  assert not folder.went_back


def test_workers_begin_at_one_step(folders):
  with pytest.raises(errors.SettingError, match="Worker 3 starts at step 10, the chief at another"):
    take(Folder(chief_start=20))


@pytest.mark.parametrize(
  ("error", "kind", "message"),
  [
    (PermissionError("denied"), errors.OutputError, r"/run \(--model_dir\): denied"),
    (
      tf.errors.PermissionDeniedError(None, None, "no"),
      errors.OutputError,
      "Cannot make the folder",
    ),
    (errors.StorageError("gs:// is away"), errors.StorageError, "is away"),
  ],
)
def test_a_folder_that_cannot_be_made_is_named(monkeypatch, error, kind, message):
  def fail(path):
    raise error

  monkeypatch.setattr(storage, "makedirs", fail)
  with pytest.raises(kind, match=message):
    take(Folder())


class Watchdog:
  """Notes the stages."""

  def __init__(self):
    self.stages = []

  @contextlib.contextmanager
  def stage(self, name):
    self.stages.append(name)
    yield


def test_a_loop_advances_the_data_by_its_steps(monkeypatch):
  done = []
  parts = dict(
    values=types.SimpleNamespace(invalidate=lambda: done.append("invalid")),
    position=types.SimpleNamespace(examples=16, advance=done.append),
    program=types.SimpleNamespace(calls=types.SimpleNamespace(model_name="net")),
    watchdog=Watchdog(),
  )
  traced = types.SimpleNamespace(
    run=lambda iterator, steps: {"steps": tf.constant(steps - 1)}, failed_in_input=lambda: None
  )
  given = types.SimpleNamespace(start=16, input_fn=input_fn, traced=traced, iterator=None)
  one = types.SimpleNamespace(call=call(), input=given)
  made(**parts)._run_device_loop(one, 5)
  parts["position"].examples = 48
  made(**parts)._run_device_loop(one, 5)
  assert done == ["invalid", 32, "invalid", 32]
  first, later = parts["watchdog"].stages
  assert "compilation" in first
  assert "compilation" not in later
