"""How a training is asked from outside to end: by SIGTERM or by Ctrl-C.

Clouds send SIGTERM before they take a machine away.

The first SIGTERM: the training saves at the end of the device loop and leaves with EXIT_CODE. The
first Ctrl-C (SIGINT): it saves there too and raises Interrupted.

The second SIGTERM ends the process at once. So does the second Ctrl-C in a command; elsewhere it
raises KeyboardInterrupt as soon as Python runs, and nothing is saved.

What is saved already, as during an evaluation, is not saved again: the training leaves there.
Before the first step there is nothing to save. The newest checkpoint is whole in any case.

Python calls its signal handlers in the main thread and between two of its own instructions, of
which there are none in a device loop. So a thread hears of each signal too: it says at once what
will follow, and ends the process where that is asked for.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from absl import logging

# "Start me again": EX_TEMPFAIL of BSD's sysexits.h, a failure that a later attempt may not meet.
EXIT_CODE = 75

# Two signals within this time are one press of Ctrl-C: a terminal sends it to a program and to the
# one that has started it, of which some pass it on.
_ONE_PRESS_SECONDS = 0.3

NOTHING_TO_SAVE = "before the first step there was nothing to save"


class Preempted(SystemExit):
  """The run was asked to end, and has saved.

  Where nobody catches it, the process ends with EXIT_CODE.
  """

  def __init__(self):
    super().__init__(EXIT_CODE)


class Interrupted(KeyboardInterrupt):
  """Ctrl-C, with a text that says what was interrupted and how to go on."""


@contextlib.contextmanager
def explain_interrupt(what: str) -> Iterator[None]:
  """Has a KeyboardInterrupt from inside tell what it has interrupted, unless it tells that
  itself.
  """
  try:
    yield
  except KeyboardInterrupt as error:
    if error.args:
      raise
    raise Interrupted(what) from None


class Watch:
  """Knows whether a training is asked to end.

  Args:
    clock: seconds.
  """

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    self._clock = clock
    self._asked = {}  # signal number → when it came first
    self._presses = Presses(clock)
    self._terminations = 0
    self._saved = None  # the step that the training is at, if that is saved
    self._at_stake = False  # whether something would be lost, were the process to end now
    self._hears_interrupts = False

  @property
  def request(self) -> int:
    """0, or a number that tells what was asked for; those of several workers may be added up."""
    return (signal.SIGTERM in self._asked) + _INTERRUPT * (signal.SIGINT in self._asked)

  def begin_loop(self, at_stake: bool) -> None:
    """Says that a device loop begins; `at_stake`: whether it is worth waiting for its end."""
    self._saved, self._at_stake = None, at_stake

  def mark_saved(self, step: int) -> None:
    """Says that the training is at a step, which is saved."""
    self._saved = step

  def _on_signal(self, number, frame):
    """Python's handler, in the main thread."""
    first = self._asked.setdefault(number, self._clock())
    if (
      number == signal.SIGINT
      and not _process_is_own
      and self._clock() - first >= _ONE_PRESS_SECONDS
    ):
      raise Interrupted("a second time, and ended at once; what was not saved is lost")

  def _hear(self, number):
    """What is said and done at once, in the thread that hears of signals."""
    if number == signal.SIGTERM:
      self._terminations += 1
      if self._terminations > 1:
        _end(128 + number, "SIGTERM again: ended at once.")  # as the signal would have ended it
      else:
        logging.warning(
          "SIGTERM: %s, and leaving with exit code %d. A second one ends the process at once.",
          self._what_follows(),
          EXIT_CODE,
        )
    elif number == signal.SIGINT and self._hears_interrupts and self._presses.add() == 1:
      if _process_is_own and self._saved is None and not self._at_stake:
        _end(128 + number, f"interrupted: {NOTHING_TO_SAVE}")
      else:
        logging.warning(
          "Ctrl-C: %s. A second one ends at once, without saving.", self._what_follows()
        )

  def _what_follows(self):
    return (
      "saving at the end of this device loop"
      if self._saved is None
      else f"ending here; step {self._saved} is saved"
    )

  @contextlib.contextmanager
  def handle_signals(self) -> Iterator["Watch"]:
    """Hears signals inside. Only a process's main thread can; elsewhere it does nothing. Ctrl-C is
    left to a program that has a handler of its own."""
    if threading.current_thread() is not threading.main_thread():
      yield self
      return
    self._hears_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    numbers = [signal.SIGTERM] + [signal.SIGINT] * self._hears_interrupts
    before = {number: signal.signal(number, self._on_signal) for number in numbers}

    def restore():
      for number, handler in before.items():
        signal.signal(number, handler)

    try:
      with _register_undo(restore), _Listener(self._hear):
        yield self
    finally:
      restore()


# What Ctrl-C adds to Watch.request; more than there can be workers.
_INTERRUPT = 1 << 20


def leave(asked: int, newest: int | None, model_dir: str) -> None:
  """Raises what a training that has saved leaves with.

  Args:
    asked: the sum of Watch.request over the workers, which is not 0.
    newest: the step of the newest checkpoint.
    model_dir: where it is.
  """
  if asked < _INTERRUPT:
    raise Preempted
  raise Interrupted(
    f"saved at step {newest} in {model_dir}; the same command, or call, goes on from there"
  )


class Presses:
  """Counts how often Ctrl-C was pressed.

  Args:
    clock: seconds.
  """

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    self._clock = clock
    self._last = None
    self._count = 0

  def add(self) -> int:
    """Takes in a signal; returns how many presses that makes, 0 if it is of the press before."""
    now = self._clock()
    if self._last is not None and now - self._last < _ONE_PRESS_SECONDS:
      return 0
    self._last = now
    self._count += 1
    return self._count


# Whether the process is a command's: a second Ctrl-C ends it. A notebook's would take along all
# that is in its memory.
_process_is_own = False


@contextlib.contextmanager
def own_process_scope() -> Iterator[None]:
  """For a command: inside, a second Ctrl-C ends the process at once, whatever it is at."""
  global _process_is_own
  presses = Presses()

  def hear(number):
    if number != signal.SIGINT or not (count := presses.add()):
      return
    if count > 1:
      _end(128 + number, "interrupted again: ended at once; the newest checkpoint is whole")
    elif signal.getsignal(number) is signal.default_int_handler:  # else a Watch tells what follows
      logging.warning("Ctrl-C: ending. A second one ends at once.")

  _process_is_own = True
  try:
    with _Listener(hear):
      yield
  finally:
    _process_is_own = False


def _end(code, text):
  """Ends the process, from whatever thread."""
  shows_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # which a progress bar has hidden
  print(f"{shows_cursor}{text}", file=sys.stderr, flush=True)
  os._exit(code)


class _Listener:
  """Calls a function, in a thread of its own, with the number of each signal that comes and has a
  handler in Python, as soon as it comes.

  The main thread makes and ends it. The file descriptor that signals are written to before is
  served too.
  """

  def __init__(self, hear):
    self._hear = hear

  def __enter__(self):
    self._pid = os.getpid()
    self._reader, self._writer = os.pipe()
    os.set_blocking(self._writer, False)
    self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
    self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
    self._thread.start()
    self._forks = _register_undo(lambda: signal.set_wakeup_fd(-1))
    self._forks.__enter__()
    return self

  def _listen(self):
    while True:
      for number in os.read(self._reader, 64):
        if not number:  # the end
          return
        self._hear(number)
        if self._before != -1:
          with contextlib.suppress(OSError):  # it is full, or nobody reads there any more
            os.write(self._before, bytes([number]))

  def __exit__(self, *exception):
    if os.getpid() != self._pid:  # a fork, whose parent's thread must not hear of its end
      return
    self._forks.__exit__(None, None, None)
    signal.set_wakeup_fd(self._before)
    os.write(self._writer, b"\0")
    self._thread.join()
    os.close(self._reader)
    os.close(self._writer)


# What a fork undoes: it would answer for its parent, be deaf to the SIGTERM that its parent sends
# it, and write its own signals to its parent's listener.
_undone = []


@contextlib.contextmanager
def _register_undo(undo):
  """A fork that is made inside calls undo."""
  _undone.append(undo)
  try:
    yield
  finally:
    if undo in _undone:  # not in such a fork
      _undone.remove(undo)


def _undo_in_fork():
  while _undone:
    _undone.pop()()


os.register_at_fork(after_in_child=_undo_in_fork)
