"""Files of URLs: what fails for a moment is tried again, and what fails for long is said."""

import re

import pytest
import tensorflow as tf

from tests.trainer import faults, programs
from trainer import errors
from trainer.checkpoints import directory, reader
from trainer.cli import command
from trainer.io import storage

UNAVAILABLE = tf.errors.UnavailableError(None, None, "the server is\nbusy")


@pytest.fixture
def clock(monkeypatch):
  made = faults.Clock()
  monkeypatch.setattr(storage, "RETRIES", storage.Retries(sleep=made.sleep, clock=made))
  return made


def failing(times, error=UNAVAILABLE):
  """A function that raises so often, and then returns how often it was called."""
  calls = []

  def function():
    calls.append(None)
    if len(calls) <= times:
      raise error
    return len(calls)

  return function


def test_pauses_double_have_a_random_part_and_end_at_the_longest(clock):
  assert storage.retry("read", "gs://a/b", failing(8)) == 9
  whole = [1, 2, 4, 8, 16, 32, 32]
  assert all(
    each / 2 <= pause <= each for pause, each in zip(clock.pauses[:7], whole, strict=True)
  ), clock.pauses
  assert len({pause / each for pause, each in zip(clock.pauses, whole, strict=False)}) > 1


def test_final_failure_names_operation_path_tries_and_time(clock):
  with pytest.raises(errors.StorageError) as raised:
    storage.retry("write the checkpoint", "gs://a/b", failing(10**6))
  tries = len(clock.pauses) + 1
  assert str(raised.value) == (
    f"Cannot write the checkpoint gs://a/b: it failed {tries} times in {clock():.0f} s, in the end "
    "with UnavailableError: the server is. Run the same command when the storage answers; "
    "a training resumes from its newest checkpoint."
  )
  assert raised.value.exit_code == 75
  assert clock() <= storage.RETRIES.total_seconds


@pytest.mark.parametrize(
  ("path", "error"),
  [
    ("/disk/a", UNAVAILABLE),
    ("gs://a/b", tf.errors.PermissionDeniedError(None, None, "no")),
    ("gs://a/b", tf.errors.NotFoundError(None, None, "no")),
  ],
)
def test_disk_errors_and_permanent_errors_are_not_retried(clock, path, error):
  with pytest.raises(type(error)):
    storage.retry("read", path, failing(1, error))
  assert clock.pauses == []


def test_a_change_whose_answer_was_lost_is_done_once(monkeypatch):
  clock = faults.Clock()
  storage.write("ram://late/a", "a")
  late = ["rename", "remove", "makedirs", "copy"]

  def once(operation, path):
    if operation in late and not (operation == "remove" and path.endswith("c")):
      late.remove(operation)
      return "after"
    return None

  faults.inject(monkeypatch, clock, once)
  storage.makedirs("ram://late/folder")
  storage.rename("ram://late/a", "ram://late/b")
  storage.copy("ram://late/b", "ram://late/c")
  storage.remove("ram://late/b")
  assert late == []
  assert len(clock.pauses) == 4
  assert storage.listdir("ram://late") == ["c", "folder"]
  with pytest.raises(tf.errors.NotFoundError):
    storage.remove("ram://late/b")


def test_state_that_tensorflow_failed_to_read_is_read_again(monkeypatch):
  folder = "ram://another_program"
  writer = directory.CheckpointDirectory(folder)
  writer.save(1, {"x": tf.constant(1.0)})
  writer.wait()
  original, answers = tf.train.latest_checkpoint, [None]
  monkeypatch.setattr(
    tf.train, "latest_checkpoint", lambda path: answers.pop() if answers else original(path)
  )
  assert reader.latest_named(folder) == f"{folder}/model.ckpt-1"
  assert answers == []
  assert reader.latest_named("ram://nothing_here") is None


def test_a_save_that_fails_for_long_is_no_checkpoint(monkeypatch):
  folder = "ram://interrupted"
  clock = faults.Clock()
  with monkeypatch.context() as patched:
    faults.inject(patched, clock, lambda name, path: "after" if name == "SaveV2" else None)
    writer = directory.CheckpointDirectory(folder)
    writer.save(1, {"x": tf.constant(1.0)})
    with pytest.raises(errors.StorageError, match="Cannot write the checkpoint ram://interrupted/"):
      writer.wait()
    assert directory.CheckpointDirectory(folder).latest_valid() is None
  writer.save(2, {"x": tf.constant(2.0)})
  writer.wait()
  assert directory.CheckpointDirectory(folder).latest_valid() == f"{folder}/model.ckpt-2"
  assert not [name for name in tf.io.gfile.listdir(folder) if "writing" in name]


@pytest.mark.parametrize("denied", [("stat", "exists"), ("makedirs",), ("write", "copy")])
def test_a_bucket_that_may_not_be_used_is_told_at_the_start(monkeypatch, denied):
  faults.inject(
    monkeypatch,
    faults.Clock(),
    lambda name, path: "before" if name in denied else None,
    tf.errors.PermissionDeniedError,
  )
  steps = []
  with pytest.raises(errors.OctetError) as raised:
    programs.estimator(f"ram://forbidden_{denied[0]}").train(
      programs.train_input, steps=1, hooks=[lambda *_: steps.append(1)]
    )
  assert re.fullmatch(
    r"Cannot .* ram://forbidden.*: this account may not \(injected fault\)\. Give it the right, or "
    "another path, such as --model_dir.",
    command.message(raised.value).splitlines()[0],
  )
  assert raised.value.exit_code == 2
  assert not steps


def test_a_file_that_is_replaced_while_it_is_read_is_read_whole(tmp_path, monkeypatch):
  """TensorFlow takes the length of the file that has the name when it reads."""
  path, new = tmp_path / "checkpoint", tmp_path / "new"
  path.write_text("a long text of this file, für dich")
  new.write_text("short")
  monkeypatch.setattr(storage, "_PORTION_BYTES", 7)

  class File(tf.io.gfile.GFile):
    def read(self, *arguments):
      self.tell()  # which opens it
      if new.exists():
        new.rename(path)
      return super().read(*arguments)

  with monkeypatch.context() as patch:
    patch.setattr(tf.io.gfile, "GFile", File)
    assert storage.read(str(path)) == "a long text of this file, für dich"
  assert storage.read(str(path)) == "short"


UNREACHABLE = tf.errors.FailedPreconditionError(
  None, None, "Error executing an HTTP request: libcurl code 6 meaning 'Could not resolve hostname'"
)


@pytest.mark.parametrize(
  ("path", "error", "said"),
  [
    ("foo://a/b", None, "Cannot read --model_dir=foo://a/b: File system scheme 'foo' not impl"),
    ("gs://a/b", UNREACHABLE, "Cannot read --model_dir=gs://a/b: Error executing an HTTP requ"),
    ("/a/b", PermissionError(13, "Permission denied"), "Cannot read --model_dir=/a/b: Permissi"),
  ],
)
def test_a_folder_that_does_not_answer_is_one_sentence(path, error, said, monkeypatch):
  def fail(path):
    raise error

  if error is not None:
    monkeypatch.setattr(tf.io.gfile, "stat", fail)
    monkeypatch.setattr(storage.os, "listdir", fail)
  with pytest.raises(errors.SettingError, match=said):
    storage.check_answers(path, "--model_dir")


@pytest.mark.parametrize(
  "error",
  [
    tf.errors.NotFoundError(None, None, ""),
    tf.errors.UnavailableError(None, None, ""),
    tf.errors.PermissionDeniedError(None, None, ""),
  ],
)
def test_a_folder_that_is_not_there_or_may_answer_later_is_none(error, monkeypatch, tmp_path):
  def fail(path):
    raise error

  monkeypatch.setattr(tf.io.gfile, "stat", fail)
  storage.check_answers("gs://a/b", "--model_dir")
  storage.check_answers(str(tmp_path / "new"), "--model_dir")
  storage.check_answers(str(tmp_path), "--model_dir")
