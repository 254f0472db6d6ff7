"""Ends a training early and safely, on SIGTERM or Ctrl-C.

SIGTERM: the training saves at the end of the device loop, and the process exits with EXIT_CODE. A
second SIGTERM ends the process at once. Clouds send SIGTERM before they take a machine away.

Ctrl-C (SIGINT): the training saves at the end of the device loop and raises Interrupted. A second
Ctrl-C ends a command at once. In other processes it raises KeyboardInterrupt as soon as Python
runs, without a save.

If the current step has a checkpoint already, as during an evaluation or an export, the training
ends at once without saving again. Before the first step there is nothing to save. The newest
checkpoint always stays complete.

Python runs signal handlers in the main thread, between two of its instructions, and a device loop
runs none. A second thread therefore also gets each signal: it prints at once what will happen, and
ends the process if it must.
"""

import contextlib
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from absl import logging

from trainer import errors

EXIT_CODE = errors.TRY_AGAIN

# Two signals within this time count as one press of Ctrl-C. A terminal sends SIGINT to a program
# and to its launcher, and some launchers pass the signal on.
_ONE_PRESS_SECONDS = 0.3

NOTHING_TO_SAVE = "before the first step there was nothing to save"


class Preempted(SystemExit):
  """A signal asked the run to end, and it has saved. Uncaught, its exit code is EXIT_CODE."""

  def __init__(self) -> None:
    super().__init__(EXIT_CODE)


class Interrupted(KeyboardInterrupt):
  """Ctrl-C, with a message about the interrupted work and how to continue."""


@contextlib.contextmanager
def explain_interrupt(what: str) -> Iterator[None]:
  """Adds a message to a KeyboardInterrupt that leaves the context without one.

  Args:
    what: the message about the interrupted work.

  Raises:
    Interrupted: the KeyboardInterrupt, with the message.
  """
  try:
    yield
  except KeyboardInterrupt as error:
    if error.args:
      raise
    raise Interrupted(what) from None


# The Watch of the training that this thread is in.
_current: contextvars.ContextVar["Watch | None"] = contextvars.ContextVar("watch", default=None)


def leave_if_saved() -> None:
  """Leaves this thread's training if a signal asked it to end and its step has a checkpoint.

  Call it between the batches of an evaluation; it may belong to a training.
  """
  if watch := _current.get():
    watch.leave_if_saved()


@contextlib.contextmanager
def leave_at_once() -> Iterator[None]:
  """Lets a signal interrupt the context, such as an export, and then leaves the training.

  It does not interrupt a training with an unsaved step, or with other workers.
  """
  watch = _current.get()
  if watch is None or not watch.may_leave:
    yield
    return
  watch.leave_if_saved()
  try:
    with watch.interruptible():
      yield
  except KeyboardInterrupt:
    watch.leave_if_saved()
    raise


class Watch:
  """Receives the signals for a training.

  Args:
    leave: function of `request` that leaves the training, with its step saved. None for one of
      several workers: they leave only together, after a loop.
    clock: returns the time in seconds.
  """

  def __init__(
    self,
    leave: Callable[[int], NoReturn] | None = None,
    clock: Callable[[], float] = time.monotonic,
  ) -> None:
    self._leave = leave
    self._clock = clock
    self._asked: dict[int, float] = {}  # signal number → time of the first one
    self._presses = Presses(clock)
    self._terminations = 0
    self._saved: int | None = None  # The current step, if it has a checkpoint.
    self._at_stake = False  # whether ending the process now would lose work
    self._hears_interrupts = False
    self._raises = False  # whether a signal interrupts the main thread

  @property
  def request(self) -> int:
    """The requested end of the training, as a number; 0 for none.

    Workers add up their numbers; `leave` takes the sum.
    """
    return (signal.SIGTERM in self._asked) + _INTERRUPT * (signal.SIGINT in self._asked)

  def begin_loop(self, at_stake: bool) -> None:
    """Notes that a device loop begins.

    Args:
      at_stake: whether ending the process during the loop would lose work. If not, Ctrl-C in a
        command does not wait for the loop's end.
    """
    self._saved, self._at_stake = None, at_stake

  def mark_saved(self, step: int) -> None:
    """Records that the training is at a step with a written checkpoint."""
    self._saved = step

  @property
  def may_leave(self) -> bool:
    """Whether the training may end here, with nothing left to save."""
    return self._leave is not None and self._saved is not None

  def leave_if_saved(self) -> None:
    """Leaves the training if a signal asked it to end and it may leave."""
    if self.request and self._leave is not None and self._saved is not None:
      self._leave(self.request)

  def _on_signal(self, number, frame):
    """Handles a signal in the main thread, as Python calls it."""
    first = self._asked.setdefault(number, self._clock())
    if self._raises:
      self._raises = False  # Once: a second signal must not interrupt the code that cleans up now.
      raise KeyboardInterrupt
    if (
      number == signal.SIGINT
      and not _process_is_own
      and self._clock() - first >= _ONE_PRESS_SECONDS
    ):
      raise Interrupted("a second time: the process ended at once and lost its unsaved steps")

  @contextlib.contextmanager
  def interruptible(self) -> Iterator[None]:
    """Has a signal, also SIGTERM, raise KeyboardInterrupt in the context, as soon as Python runs.

    Only the main thread may open the context.
    """
    self._raises = True
    try:
      yield
    finally:
      self._raises = False

  def _hear(self, number):
    """Handles a signal in the listener's thread, at once."""
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
      else f"ending here; the checkpoint of step {self._saved} is on disk"
    )

  @contextlib.contextmanager
  def handle_signals(self) -> Iterator["Watch"]:
    """Handles SIGTERM and Ctrl-C while the context is open.

    Only the main thread can set handlers; in another thread this does nothing. If the program has
    its own handler of SIGINT, Ctrl-C stays with it.

    Yields:
      This Watch.
    """
    if threading.current_thread() is not threading.main_thread():
      yield self
      return
    self._hears_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    numbers = [signal.SIGTERM] + [signal.SIGINT] * self._hears_interrupts
    before = {number: signal.signal(number, self._on_signal) for number in numbers}

    def restore():
      for number, handler in before.items():
        signal.signal(number, handler)

    outer = _current.set(self)
    try:
      with _register_undo(restore), _Listener(self._hear):
        yield self
    finally:
      _current.reset(outer)
      restore()


# What Ctrl-C adds to Watch.request: more than SIGTERMs of all workers can add up to.
_INTERRUPT = 1 << 20


def leave(asked: int, newest: int | None, model_dir: str) -> NoReturn:
  """Ends a training that has saved.

  Args:
    asked: the sum of Watch.request over the workers, not 0.
    newest: the step of the newest checkpoint, or None.
    model_dir: the folder of the checkpoints.

  Raises:
    Preempted: all signals were SIGTERMs.
    Interrupted: a worker got Ctrl-C.
  """
  saved = f"saved at step {newest}" if newest is not None else "without a checkpoint"
  if asked < _INTERRUPT:
    logging.warning("%s in %s; the same command resumes from there.", saved.capitalize(), model_dir)
    raise Preempted
  raise Interrupted(f"{saved} in {model_dir}; the same command, or call, resumes from there")


class Presses:
  """Counts presses of Ctrl-C.

  Args:
    clock: returns the time in seconds.
  """

  def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
    self._clock = clock
    self._last: float | None = None
    self._count = 0

  def add(self) -> int:
    """Counts a signal.

    Returns:
      The number of presses so far; 0 if the signal belongs to the last press.
    """
    now = self._clock()
    if self._last is not None and now - self._last < _ONE_PRESS_SECONDS:
      return 0
    self._last = now
    self._count += 1
    return self._count


# Whether the process belongs to a command. If so, a second Ctrl-C ends it. A notebook's process
# must not end: it holds the user's other work in memory.
_process_is_own = False


@contextlib.contextmanager
def own_process_scope() -> Iterator[None]:
  """Makes a second Ctrl-C end the process at once while the context is open. For commands."""
  global _process_is_own
  presses = Presses()

  def hear(number):
    if number != signal.SIGINT or not (count := presses.add()):
      return
    if count > 1:
      _end(128 + number, "interrupted again: ended at once; the newest checkpoint is whole")
    # With another handler, a Watch is active and prints what will happen.
    elif signal.getsignal(number) is signal.default_int_handler:
      logging.warning("Ctrl-C: ending. A second one ends at once.")

  _process_is_own = True
  try:
    with _Listener(hear):
      yield
  finally:
    _process_is_own = False


def _end(code, text):
  """Prints a text and ends the process, from any thread."""
  # os._exit runs no clean-up, so erase a progress bar and show the hidden cursor here. rich's
  # replacement of sys.stderr would drop the control characters.
  file = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
  clean_up = "\r\x1b[2K\x1b[?25h" if file.isatty() else ""
  print(f"{clean_up}{text}", file=file, flush=True)
  os._exit(code)


class _Listener:
  """Calls a function with the number of each signal, at once, in its own thread.

  It uses signal.set_wakeup_fd: Python's C handler writes the number of each signal with a Python
  handler to a pipe. An earlier wakeup descriptor gets the numbers too. Enter and leave the context
  in the main thread.

  Args:
    hear: function of a signal number.
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
          with contextlib.suppress(OSError):  # the pipe is full, or nobody reads from it any more
            os.write(self._before, bytes([number]))

  def __exit__(self, *exception):
    # A fork shares the pipe with its parent. Ending here would end the parent's thread.
    if os.getpid() != self._pid:
      return
    self._forks.__exit__(None, None, None)
    signal.set_wakeup_fd(self._before)
    os.write(self._writer, b"\0")
    self._thread.join()
    os.close(self._reader)
    os.close(self._writer)


# What a forked process must undo. Otherwise it would handle signals as the training does, ignore a
# SIGTERM from its parent, and write its own signals to the parent's listener.
_undone: list[Callable[[], None]] = []


@contextlib.contextmanager
def _register_undo(undo):
  """Makes forks of this process call undo while the context is open."""
  _undone.append(undo)
  try:
    yield
  finally:
    if undo in _undone:  # a fork has removed it already
      _undone.remove(undo)


def _undo_in_fork():
  while _undone:
    _undone.pop()()


os.register_at_fork(after_in_child=_undo_in_fork)
