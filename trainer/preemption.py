"""SIGTERM, which clouds send before they take a machine away: the run saves at the next loop's end and leaves with EXIT_CODE.

A second SIGTERM, or Ctrl-C, ends the process at once; the newest checkpoint is whole in any case.
"""

import contextlib
import os
import signal
import threading

from absl import logging

# "Start me again": EX_TEMPFAIL of BSD's sysexits.h, a failure that a later attempt may not meet.
EXIT_CODE = 75


class Preempted(SystemExit):
  """The run was asked to end, and has saved. Where nobody catches it, the process ends with EXIT_CODE."""

  def __init__(self):
    super().__init__(EXIT_CODE)


class Watch:
  """Knows whether SIGTERM has come."""

  def __init__(self):
    self.requested = False

  def _on_signal(self, number, frame):
    if self.requested:
      os._exit(128 + number)  # as the signal would have ended it
    self.requested = True
    logging.warning("SIGTERM: saving at the end of this loop, and leaving with exit code %d. A second one ends the process at once.", EXIT_CODE)

  @contextlib.contextmanager
  def listening(self):
    """Hears SIGTERM inside. Only a process's main thread can; elsewhere it does nothing."""
    if threading.current_thread() is not threading.main_thread():
      yield self
      return
    before = signal.signal(signal.SIGTERM, self._on_signal)
    try:
      yield self
    finally:
      signal.signal(signal.SIGTERM, before)
