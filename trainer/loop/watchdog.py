"""Ends a process that hangs, with the name of the stage that does and the stacks of all threads,
instead of waiting for ever.

Example:
    watchdog = Watchdog(timeout_secs=3600)
    with watchdog.stage("evaluation"):
      for batch in batches:
        ...
        watchdog.beat()
"""

import contextlib
import faulthandler
import os
import sys
import threading
import time

# What timeout(1) of GNU coreutils ends with when the time is over.
EXIT_CODE = 124


class Watchdog:
  """Watches over the stages of each thread, of which one may be inside another: the innermost
  counts.

  Args:
    timeout_secs: how long a stage may take; None for as long as it likes.
    end: called with a sentence when one takes longer; ends the process.
    clock: seconds.
  """

  def __init__(self, timeout_secs, end=None, clock=time.monotonic):
    self._timeout = timeout_secs
    self._end = end or _end
    self._clock = clock
    # By thread: [name, time of its beginning, or of the end of the last one inside] of each stage.
    self._stages = {}
    self._changed = threading.Condition()
    self._thread = None

  @contextlib.contextmanager
  def stage(self, name):
    """Inside is a stage of this name."""
    if self._timeout is None:
      yield
      return
    with self._changed:
      self._stages.setdefault(threading.get_ident(), []).append([name, self._clock()])
      self._start()
      self._changed.notify()
    try:
      yield
    finally:
      with self._changed:
        stages = self._stages[threading.get_ident()]
        stages.pop()
        if stages:
          stages[-1][1] = self._clock()
        else:
          del self._stages[threading.get_ident()]
        self._changed.notify()

  def beat(self):
    """Says that the innermost stage gets on: its time begins anew."""
    with self._changed:
      stages = self._stages.get(threading.get_ident())
      if stages:
        stages[-1][1] = self._clock()
        self._changed.notify()

  def _start(self):
    if self._thread is None:
      self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
      self._thread.start()

  def _watch(self):
    with self._changed:
      while True:
        left = None
        if self._stages:
          innermost = [stages[-1] for stages in self._stages.values()]
          name, since = min(innermost, key=lambda stage: stage[1])
          left = since + self._timeout - self._clock()
          if left <= 0:
            self._end(
              f'The stage "{name}" has not ended for {self._timeout:g} s (gin: '
              "RunConfig.stage_timeout_secs)."
            )
            return
        self._changed.wait(left)


def _end(sentence):
  print(f"error: {sentence} The stacks of all threads:", file=sys.stderr, flush=True)
  faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
  os._exit(EXIT_CODE)  # the thread that hangs would not hear of anything milder
