"""A thread that sends the lines of a run to its tracker during the run.

    sender = Sender(tracker, "out/digits", begun_at=0)
    sender.start()
    sender.ask(lambda: tracker.close("FINISHED"))   # after the present lines
    sender.wait(10.0)                               # at most so long

Only this thread calls the tracker. If the tracker does not answer, the thread tries again later,
less and less often, and logs one warning.
"""

import atexit
import collections
import os
import threading
from collections.abc import Callable

from absl import logging

from trainer import errors
from trainer.checkpoints import file_names
from trainer.io import storage
from trainer.reporting import metrics_file
from trainer.tracking import trackers, unsent_lines

_LONGEST_PAUSE = 60.0  # seconds between two tries of a tracker that does not answer


class Sender:
  """Sends the lines and files of one run.

  Args:
    tracker: the tracker of the run.
    model_dir: the folder of the run.
    begun_at: the step at which the training begins; None without a training.
    seconds: between two looks at metrics.jsonl.
  """

  def __init__(
    self,
    tracker: trackers.Tracker,
    model_dir: str,
    begun_at: int | None = None,
    seconds: float = 5.0,
  ) -> None:
    self._tracker = tracker
    self._model_dir = model_dir
    self._begun_at = begun_at
    self._seconds = seconds
    self._lines: unsent_lines.UnsentLines | None = None
    self._asked: collections.deque[Callable[[], None]] = collections.deque()
    self._wake = threading.Event()
    self._changed = threading.Condition()
    self._rounds_asked = self._rounds_done = self._rounds_failed = 0
    self._is_silent = False
    self._stopped = threading.Event()
    self._pause = seconds
    # A daemon: the thread must not keep a process alive that somebody ends.
    self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)

  def start(self) -> None:
    """Starts the thread."""
    self._thread.start()
    # If the interpreter ends while a daemon is in C++ code, the process crashes.
    atexit.register(self._leave)

  def ask(self, what: Callable[[], None]) -> None:
    """Queues a call for the thread, after all present lines."""
    self._asked.append(what)

  def wait(self, seconds: float) -> bool:
    """Waits, at most so many seconds, for a try to send all; returns whether it succeeded."""
    with self._changed:
      self._rounds_asked += 1
      wanted = self._rounds_asked
      self._wake.set()
      self._changed.wait_for(lambda: max(self._rounds_done, self._rounds_failed) >= wanted, seconds)
      if self._rounds_done < wanted and not self._is_silent:
        self._warn("has not taken all yet")
      return self._rounds_done >= wanted

  def stop(self) -> None:
    """Ends the thread after its present try."""
    self._stopped.set()
    self._wake.set()

  def _leave(self):
    """Waits, at the exit of the process, for the end of the present request alone."""
    self.stop()
    self._thread.join()

  def send(self) -> None:
    """Sends all present lines, and makes the queued calls, in the caller's thread.

    Raises:
      UnreachableError: the tracker does not answer.
    """
    if self._lines is None:
      # The tracker returns its steps for these kinds, and UnsentLines omits them.
      kinds = {line["kind"] for line in metrics_file.read(self._model_dir)}
      sent = self._tracker.open(kinds)
      self._lines = unsent_lines.UnsentLines(
        self._model_dir, sent, self._begun_at, self._tracker.record.saved
      )
    if lines := self._lines.read():
      self._tracker.send(lines)
      self._lines.mark_sent(lines)
      self._note(lines)
    while self._asked and not self._stopped.is_set():
      self._asked[0]()
      self._asked.popleft()

  def _work(self):
    while not self._stopped.is_set():
      self._wake.wait(self._pause)
      self._wake.clear()
      if not self._stopped.is_set():
        self._try()
    atexit.unregister(self._leave)

  def _try(self):
    wanted = self._rounds_asked
    try:
      self.send()
    # A tracker's library may raise anything, and a dead thread could not warn anybody.
    except Exception as error:
      self._pause = min(2 * self._pause, _LONGEST_PAUSE)
      if not self._is_silent:
        self._warn(f"does not take the run's data: {errors.first_line(error)}")
      self._is_silent = True
      with self._changed:
        self._rounds_failed = wanted
        self._changed.notify_all()
      return
    if self._is_silent:
      logging.info("%s answers again, and has all.", self._tracker.name)
    self._pause, self._is_silent = self._seconds, False
    with self._changed:
      self._rounds_done = wanted
      self._changed.notify_all()

  def _warn(self, problem):
    logging.warning(
      "%s %s. The training goes on. The next start of this training sends the rest, or: "
      "python -m trainer.tracking %s",
      self._tracker.name,
      problem,
      self._model_dir,
    )

  def _note(self, lines):
    """Records the newest sent steps, and the newest checkpoint, where a later training begins."""
    record = self._tracker.record
    for line in lines:
      record.sent[line["kind"]] = line["step"]
    names = [os.path.basename(name) for name in storage.listdir(self._model_dir)]
    record.saved = max(file_names.steps(names), default=0)
    record.write()
