"""Ends a process that hangs: prints the stacks of all threads, and exits.

Example:
    watchdog = Watchdog(timeout_secs=3600)
    with watchdog.stage("evaluation"):
      for batch in batches:
        ...
        watchdog.beat()

The standard library's faulthandler has the timer, and there is one for the process: a stage or a
beat of any thread restarts it.
"""

import contextlib
import faulthandler
import sys
import threading
import time
from collections.abc import Iterator

_lock = threading.Lock()
_open_stages = 0  # of all threads

_BEAT_SECONDS = 0.5


class Watchdog:
  """Watches stages: no stage may take longer than a time without a beat or a stage inside.

  Args:
    timeout_secs: the longest time, in seconds; None for no limit. After it, the process prints
      "Timeout", the stacks of all threads, and ends with exit code 1.
  """

  def __init__(self, timeout_secs: float | None) -> None:
    self._timeout = timeout_secs
    self._restarted = 0.0

  @contextlib.contextmanager
  def stage(self, name: str) -> Iterator[None]:
    """Times what this thread does while the context is open. The name is for the reader."""
    del name
    self._count(+1)
    try:
      yield
    finally:
      self._count(-1)

  def beat(self) -> None:
    """Restarts the time: the stage has made progress."""
    # A restart takes 0.1 ms, as long as an evaluation's small batch.
    if time.monotonic() - self._restarted >= _BEAT_SECONDS:
      self._count(0)

  def _count(self, change):
    global _open_stages
    if self._timeout is None:
      return
    with _lock:
      _open_stages += change
      if _open_stages:
        self._restarted = time.monotonic()
        faulthandler.dump_traceback_later(self._timeout, exit=True, file=sys.__stderr__)
      else:
        faulthandler.cancel_dump_traceback_later()
