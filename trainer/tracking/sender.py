"""A thread that sends a run to its tracker while the training goes on.

    sender = Sender(hook, "out/digits", begun_at=0)
    sender.start()
    sender.finish("FINISHED", ["config"], patience=60.0)

Only this thread calls the tracker. If the tracker does not answer, the thread tries again later,
less and less often, and logs one warning.
"""

import atexit
import os
import threading
from collections.abc import Sequence
from typing import Any

from absl import logging

from trainer import errors
from trainer.checkpoints import file_names
from trainer.io import storage
from trainer.reporting import metrics_file
from trainer.tracking import run_files, unsent_lines

_LONGEST_PAUSE = 60.0  # seconds between two tries of a tracker that does not answer


class Sender:
  """Sends the lines, parameters and files of one run.

  Args:
    tracker: the `hook.TrackingHook` of the run.
    model_dir: the folder of the run.
    begun_at: the step at which the training begins; None without a training.
    seconds: between two looks at metrics.jsonl.
  """

  def __init__(
    self, tracker: Any, model_dir: str, begun_at: int | None = None, seconds: float = 5.0
  ) -> None:
    self._tracker = tracker
    self._model_dir = model_dir
    self._begun_at = begun_at
    self._seconds = seconds
    self._lines: unsent_lines.UnsentLines | None = None
    self._ending: tuple[str, Sequence[str]] | None = None
    self._has_parameters = self._is_left = False
    self._wake = threading.Event()
    # A daemon: the thread must not keep a process alive that somebody ends.
    self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)

  def start(self) -> None:
    """Starts the thread."""
    self._thread.start()
    # If the interpreter ends while a daemon is in C++ code, the process crashes.
    atexit.register(self._leave)

  def finish(self, status: str, artifacts: Sequence[str], patience: float) -> None:
    """Has the thread send the rest, and end; waits for it at most `patience` seconds.

    Args:
      status: how the training ended, see `hook`.
      artifacts: the kinds of files to send, see `run_files`.
      patience: seconds.
    """
    self._ending = status, artifacts
    self._wake.set()
    self._thread.join(patience)
    if self._thread.is_alive():
      self._warn("has not taken all yet")

  def send(self, status: str = "", artifacts: Sequence[str] | None = None) -> None:
    """Sends what the tracker lacks, in the caller's thread; raises what the tracker raises.

    Args:
      status: how the training ended; "" if it goes on or nobody knows.
      artifacts: the kinds of files to send, after the parameters; None while a training goes on.
    """
    if self._lines is None:
      # The tracker returns its steps for these kinds, and UnsentLines omits them.
      kinds = {line["kind"] for line in metrics_file.read(self._model_dir)}
      sent = self._tracker.open(self._model_dir, kinds)
      self._lines = unsent_lines.UnsentLines(
        self._model_dir, sent, self._begun_at, self._tracker.record.saved
      )
    if lines := self._lines.read():
      self._tracker.send(lines)
      self._lines.mark_sent(lines)
      self._note(lines)
    is_last = artifacts is not None
    if not self._has_parameters or is_last:
      parameters = run_files.parameters(self._model_dir)
      self._has_parameters = bool(parameters)
      if parameters or is_last:
        self._tracker.set_parameters(parameters)
    if artifacts is not None:
      with run_files.of_run(self._model_dir, artifacts) as files:
        self._tracker.add_files(files)
    if status:
      self._tracker.close(status)

  def _leave(self):
    """Waits, at the exit of the process, for the end of the present try."""
    self._is_left = True
    self._wake.set()
    self._thread.join()

  def _work(self):
    pause = self._seconds
    while not self._is_left:
      self._wake.wait(pause)
      self._wake.clear()
      if self._is_left:
        break
      # `finish` may come during a try: then another try sends the rest.
      ending = self._ending
      pause = self._seconds if self._try(*ending or ()) else min(2 * pause, _LONGEST_PAUSE)
      if ending:
        break
    atexit.unregister(self._leave)

  def _try(self, *ending):
    """Sends; returns whether the tracker took all."""
    try:
      self.send(*ending)
    # A tracker's library may raise anything, and a dead thread could not warn anybody.
    except Exception as error:
      if not self._tracker.has_warned:
        self._warn(f"does not take the run's data: {errors.first_line(error)}")
      return False
    if self._tracker.has_warned:
      logging.info("%s answers again, and has all.", self._tracker.name)
    self._tracker.has_warned = False
    return True

  def _warn(self, problem):
    self._tracker.has_warned = True
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
