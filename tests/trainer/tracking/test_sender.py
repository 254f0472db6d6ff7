"""The thread that sends: what it sends, and what it does where nobody answers."""

import logging
import threading

import pytest

from trainer.reporting import metrics_file
from trainer.tracking import record, sender, trackers


class Memory:
  """A tracker that keeps all it takes, and answers as long as `answers`."""

  name = "Memory"
  error = trackers.UnreachableError

  def __init__(self, folder, answers=True):
    self.record = record.Record(record.path(str(folder), "memory"))
    self.answers = answers
    self.steps, self.tries = [], 0

  def _take(self):
    self.tries += 1
    if not self.answers:
      raise self.error("connection refused")

  def open(self, kinds):
    self._take()
    return {kind: [] for kind in kinds}

  def send(self, lines):
    self._take()
    self.steps += [line["step"] for line in lines]


def append(folder, *steps):
  for step in steps:
    metrics_file.append(str(folder), "train", step, {"loss": 1.0})


def test_all_is_sent_once_and_then_what_was_asked(tmp_path):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20)
  tracker = Memory(tmp_path)
  done = []
  sending = sender.Sender(tracker, str(tmp_path), begun_at=0, seconds=60.0)
  sending.start()
  sending.ask(lambda: done.append(list(tracker.steps)))
  assert sending.wait(60.0)
  append(tmp_path, 30)
  assert sending.wait(60.0)
  assert (tracker.steps, done) == ([10, 20, 30], [[10, 20]])
  sending.stop()


def test_record_holds_sent_steps_and_the_newest_checkpoint(tmp_path):
  append(tmp_path, 10, 20)
  (tmp_path / "model.ckpt-10.index").touch()
  sender.Sender(Memory(tmp_path), str(tmp_path)).send()
  known = record.read(str(tmp_path), "memory")
  assert (known.sent, known.saved) == ({"train": 20}, 10)


@pytest.mark.parametrize("kind", [trackers.UnreachableError, ImportError])
def test_no_answer_gives_one_warning_and_all_is_sent_later(tmp_path, caplog, kind):
  append(tmp_path, 10)
  tracker = Memory(tmp_path, answers=False)
  tracker.error = kind
  sending = sender.Sender(tracker, str(tmp_path), seconds=2.0)
  with caplog.at_level(logging.INFO):
    pauses = []
    for _ in range(8):
      sending._try()
      pauses.append(sending._pause)
  assert pauses == [4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
  [warning] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
  assert "connection refused" in warning
  assert f"python -m trainer.tracking {tmp_path}" in warning
  append(tmp_path, 20)
  tracker.answers = True
  sending._try()
  assert (tracker.steps, sending._pause) == ([10, 20], 2.0)


class OneTry(threading.Condition):
  """In place of a wait for the thread: the sender tries once in the thread of the test."""

  def __init__(self, sending):
    super().__init__()
    self.sending = sending

  def wait_for(self, predicate, timeout=None):
    self.timeout = timeout
    self.sending._try()
    self.is_over = predicate()


def test_wait_lasts_no_longer_than_asked(tmp_path):
  sending = sender.Sender(Memory(tmp_path), str(tmp_path))
  sending._changed = OneTry(sending)
  assert sending.wait(3600.0)
  assert sending._changed.timeout == 3600.0


def test_a_dead_tracker_is_not_waited_for(tmp_path, caplog):
  tracker = Memory(tmp_path, answers=False)
  sending = sender.Sender(tracker, str(tmp_path))
  sending._changed = OneTry(sending)
  assert not sending.wait(3600.0)
  assert sending._changed.is_over
  assert tracker.tries == 1
  assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1


def test_a_slow_tracker_has_not_taken_all_yet(tmp_path, caplog):
  go_on = threading.Event()

  class Slow(Memory):
    def open(self, kinds):
      assert go_on.wait(60.0)
      return super().open(kinds)

  sending = sender.Sender(Slow(tmp_path), str(tmp_path), seconds=3600.0)
  sending.start()
  assert not sending.wait(0.0)
  [warning] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
  assert "Memory has not taken all yet" in warning
  assert f"python -m trainer.tracking {tmp_path}" in warning
  go_on.set()
  assert sending.wait(60.0)
  sending.stop()


def test_what_fails_on_the_way_is_asked_again(tmp_path):
  tracker = Memory(tmp_path)
  tries = []

  def upload():
    tries.append(1)
    if len(tries) == 1:
      raise trackers.UnreachableError("timed out")

  sending = sender.Sender(tracker, str(tmp_path))
  sending.ask(upload)
  with pytest.raises(trackers.UnreachableError):
    sending.send()
  sending.send()
  sending.send()
  assert len(tries) == 2


def test_exit_finishes_the_current_request_and_begins_none(tmp_path):
  append(tmp_path, 10)
  begun = threading.Event()
  done = []

  class Slow(Memory):
    def send(self, lines):
      begun.set()
      assert sending._stopped.wait(60.0)
      super().send(lines)

  tracker = Slow(tmp_path)
  sending = sender.Sender(tracker, str(tmp_path), seconds=60.0)
  sending.ask(lambda: done.append("a file"))
  sending.start()
  assert not sending.wait(0.0)
  assert begun.wait(60.0)
  sending._leave()
  assert (tracker.steps, done) == ([10], [])
