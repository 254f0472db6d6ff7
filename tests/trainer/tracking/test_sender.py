"""The thread that sends: what it sends, and what it does where nobody answers."""

import logging
import threading

import pytest

from trainer.reporting import metrics_file
from trainer.tracking import record, sender


class Memory:
  """A tracker that keeps all it takes, and answers as long as `answers`."""

  name = "Memory"
  has_warned = False
  error = ConnectionRefusedError

  def __init__(self, folder, answers=True):
    self.record = record.Record(record.path(str(folder), "memory"))
    self.answers = answers
    self.steps, self.tries, self.parameters, self.ends = [], 0, [], []

  def _take(self):
    self.tries += 1
    if not self.answers:
      raise self.error("connection refused")

  def open(self, model_dir, kinds):
    self._take()
    return {kind: [] for kind in kinds}

  def send(self, lines):
    self._take()
    self.steps += [line["step"] for line in lines]

  def set_parameters(self, parameters):
    self.parameters.append(parameters)

  def add_files(self, files):
    self._take()

  def close(self, status):
    self.ends.append((list(self.steps), status))


def append(folder, *steps):
  for step in steps:
    metrics_file.append(str(folder), "train", step, {"loss": 1.0})


def warnings(caplog):
  return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def test_all_is_sent_once_and_then_how_it_ended(tmp_path):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20)
  tracker = Memory(tmp_path)
  sending = sender.Sender(tracker, str(tmp_path), begun_at=0, seconds=3600.0)
  sending.send()
  append(tmp_path, 30)
  sending.start()
  sending.finish("FINISHED", [], 60.0)
  assert tracker.ends == [([10, 20, 30], "FINISHED")]
  assert not sending._thread.is_alive()


def test_parameters_follow_as_soon_as_the_run_has_them(tmp_path):
  tracker = Memory(tmp_path)
  sending = sender.Sender(tracker, str(tmp_path))
  sending.send()
  assert tracker.parameters == []
  (tmp_path / "operative_config.gin").write_text("run.train_steps = 20\n")
  for _ in range(2):
    sending.send()
  known = {"run.train_steps": "20"}
  assert tracker.parameters == [known]
  sending.send("FINISHED", [])
  assert tracker.parameters == [known, known]


def test_record_holds_sent_steps_and_the_newest_checkpoint(tmp_path):
  append(tmp_path, 10, 20)
  (tmp_path / "model.ckpt-10.index").touch()
  sender.Sender(Memory(tmp_path), str(tmp_path)).send()
  known = record.read(str(tmp_path), "memory")
  assert (known.sent, known.saved) == ({"train": 20}, 10)


class Waits:
  """In place of the thread's event: notes the pauses, and ends the thread after some."""

  def __init__(self, sending, count):
    self.sending, self.count, self.pauses = sending, count, []

  def wait(self, pause):
    self.pauses.append(pause)
    self.sending._is_left = len(self.pauses) > self.count

  def clear(self):
    pass


@pytest.mark.parametrize("kind", [ConnectionRefusedError, ImportError])
def test_no_answer_gives_one_warning_and_all_is_sent_later(tmp_path, caplog, kind):
  append(tmp_path, 10)
  tracker = Memory(tmp_path, answers=False)
  tracker.error = kind
  sending = sender.Sender(tracker, str(tmp_path), seconds=2.0)
  sending._wake = Waits(sending, 8)
  with caplog.at_level(logging.INFO):
    sending._work()
  assert sending._wake.pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
  [warning] = warnings(caplog)
  assert "connection refused" in warning
  assert f"python -m trainer.tracking {tmp_path}" in warning
  append(tmp_path, 20)
  tracker.answers = True
  assert sending._try()
  assert tracker.steps == [10, 20]


def test_a_dead_tracker_is_tried_once_at_the_end(tmp_path, caplog):
  tracker = Memory(tmp_path, answers=False)
  sending = sender.Sender(tracker, str(tmp_path), seconds=3600.0)
  sending.start()
  sending.finish("FINISHED", [], 3600.0)
  assert tracker.tries == 1
  assert len(warnings(caplog)) == 1


class Slow(Memory):
  """Answers after `go_on`."""

  def __init__(self, folder):
    super().__init__(folder)
    self.begun, self.go_on = threading.Event(), threading.Event()

  def open(self, model_dir, kinds):
    self.begun.set()
    assert self.go_on.wait(60.0)
    return super().open(model_dir, kinds)


def test_a_slow_tracker_has_not_taken_all_yet(tmp_path, caplog):
  append(tmp_path, 10)
  tracker = Slow(tmp_path)
  sending = sender.Sender(tracker, str(tmp_path), seconds=3600.0)
  sending.start()
  sending.finish("FINISHED", [], 0.0)
  [warning] = warnings(caplog)
  assert "Memory has not taken all yet" in warning
  assert f"python -m trainer.tracking {tmp_path}" in warning
  tracker.go_on.set()
  sending._thread.join(60.0)
  assert tracker.ends == [([10], "FINISHED")]


def test_an_end_during_a_try_has_a_try_of_its_own(tmp_path):
  tracker = Slow(tmp_path)
  sending = sender.Sender(tracker, str(tmp_path), seconds=0.0)
  sending.start()
  assert tracker.begun.wait(60.0)
  append(tmp_path, 10)
  sending.finish("FINISHED", [], 0.0)
  tracker.go_on.set()
  sending._thread.join(60.0)
  assert tracker.ends == [([10], "FINISHED")]


def test_exit_finishes_the_current_try_and_begins_none(tmp_path):
  append(tmp_path, 10)
  tracker = Slow(tmp_path)
  sending = sender.Sender(tracker, str(tmp_path), seconds=0.0)
  sending.start()
  assert tracker.begun.wait(60.0)
  sending._is_left = True
  tracker.go_on.set()
  sending._leave()
  assert (tracker.steps, tracker.ends) == ([10], [])
