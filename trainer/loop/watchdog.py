"""Ends a process that hangs: prints the name of the stage and the stacks of all threads, and exits.

The standard library's `faulthandler` prints the stacks. Its own timer, `dump_traceback_later`, does
not serve here: there is one per process, while each thread has its own stages, and it cannot print
which stage hangs or which setting to change.

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
from collections.abc import Callable, Iterator

# The exit code of timeout(1) of GNU coreutils after the time is over.
EXIT_CODE = 124


class Watchdog:
  """Watches the stages of all threads. Stages may nest: only the innermost one counts time.

  Args:
    timeout_secs: the longest time of a stage, in seconds; None for no limit.
    end: called with a sentence when a stage takes longer. Default: prints the sentence and the
      stacks of all threads, and ends the process with EXIT_CODE.
    clock: returns the time in seconds.
  """

  def __init__(
    self,
    timeout_secs: float | None,
    end: Callable[[str], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
  ) -> None:
    self._timeout = timeout_secs
    self._end = end or _end
    self._clock = clock
    # By thread id: [name, start] of each open stage, the innermost last. A beat, or the end of a
    # stage inside, moves the start to that time.
    self._stages: dict[int, list[list]] = {}
    self._changed = threading.Condition()
    self._thread: threading.Thread | None = None

  @contextlib.contextmanager
  def stage(self, name: str) -> Iterator[None]:
    """Times what this thread does while the context is open, as a stage of this name."""
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

  def beat(self) -> None:
    """Restarts the time of this thread's innermost stage, which has made progress."""
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
  # sys.exit would end this thread only: the thread that hangs would keep the process alive.
  os._exit(EXIT_CODE)
