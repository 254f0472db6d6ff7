"""The sides of a comparison take turns, each in its own process.

    def bare(turns, case):           # a side: prepares, then does a slice of work in each turn
      ...
      while turns.take():
        train(case.steps)

    both = {"octet": Side(octet, {"case": case}), "bare": Side(bare, {"case": case})}
    slices = sides.alternate(both, rounds=10)
    slices["octet"].seconds          # one for each round

With its own process, each side has its own thread pools, settings and peak of memory. While one
side works, the others rest: before a side ends its turn, it waits until its threads have filled
their buffers ahead.
"""

import dataclasses
import multiprocessing
import resource
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Side:
  """A function of the `Turns` and these arguments that prepares, and then works in each turn."""

  function: Callable
  arguments: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Slices:
  """A side's measurements.

  Attributes:
    seconds: of each round, by the clock.
    resident: the process's memory in bytes after each round.
    peak: the process's peak of memory in bytes.
    failed: the error that ended the rounds, in a line; "" if all ran.
  """

  seconds: list
  resident: list
  peak: int = 0
  failed: str = ""


class _SideFailed(Exception):
  """A side raised an error, or its process ended."""


class Turns:
  """A side's view of the turns.

  `take` ends the last slice, and returns at the start of the next, or False at the end.
  """

  def __init__(self, connection):
    self._connection = connection
    self._start = None

  def take(self, rest=None):
    """See the class.

    Args:
      rest: function that returns when the slice's workers rest; None: when this process's threads
        rest.
    """
    seconds = None if self._start is None else time.perf_counter() - self._start
    (rest or until_idle)()
    self._connection.send(
      ("done", (seconds, _resident(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    )
    go = self._connection.recv()
    self._start = time.perf_counter()
    return go


def alternate(sides, rounds, warm=2):
  """Runs the sides in turn, and reverses the order from round to round.

  Args:
    sides: dict of name → Side.
    rounds: the number of slices of each side that count.
    warm: the number of slices before those, for the first work of compilers and caches.

  Returns:
    Name → Slices. A failed side gets no more turns, and its Slices have the error; the others
    continue.
  """
  context = multiprocessing.get_context("spawn")
  workers, slices = {}, {name: Slices([], []) for name in sides}

  def receive(name):
    try:
      return _receive(*workers[name])
    except _SideFailed as error:
      slices[name].failed = str(error).splitlines()[-1]
      print(f"{name} failed: {error}", file=sys.stderr)
      return None

  try:
    for name, side in sides.items():  # sides prepare one after another
      ours, theirs = context.Pipe()
      process = context.Process(target=_work, args=(theirs, side), daemon=True)
      process.start()
      theirs.close()  # here, so that the pipe ends with the side's process
      workers[name] = process, ours
      receive(name)
    for number in range(-warm, rounds):
      for name in list(sides)[:: -1 if number % 2 else 1]:
        if slices[name].failed:
          continue
        workers[name][1].send(True)
        measured = receive(name)
        if measured and number >= 0:
          seconds, resident, slices[name].peak = measured
          slices[name].seconds.append(seconds)
          slices[name].resident.append(resident)
  finally:
    for process, _ in workers.values():
      process.kill()
      process.join()
  return slices


def failure(slices, *names):
  """Returns which of these sides failed, and why, in a line; "" if none did."""
  return "; ".join(f"{name}: {slices[name].failed}" for name in names if slices[name].failed)


def ratios(slices, other, ours="octet"):
  """Returns our speed ÷ the other's for each round: a tuple of floats, () if one of them failed."""
  if failure(slices, ours, other):
    return ()
  return tuple(
    theirs / mine for mine, theirs in zip(slices[ours].seconds, slices[other].seconds, strict=True)
  )


def note(slices, examples, other, ours="octet"):
  """Returns the note for a ratio: both speeds and both peaks of memory, or which side failed.

  A slice has this many `examples`.
  """
  if failed := failure(slices, ours, other):
    return failed
  speeds = [examples / statistics.median(slices[name].seconds) for name in (ours, other)]
  peaks = [slices[name].peak / 2**30 for name in (ours, other)]
  return (
    f"{speeds[0]:,.0f} and {speeds[1]:,.0f} examples/s; peaks {peaks[0]:.1f} and {peaks[1]:.1f} GiB"
  )


def _work(connection, side):
  try:
    side.function(Turns(connection), **side.arguments)
  except BaseException:  # send any error to the other process
    connection.send(("failed", traceback.format_exc()))


def _receive(process, connection):
  try:
    kind, value = connection.recv()
  except EOFError:
    process.join()
    raise _SideFailed(f"its process died of {_cause(process.exitcode)}") from None
  if kind == "failed":
    raise _SideFailed(value)
  return value


def _cause(exitcode):
  return signal.Signals(-exitcode).name if exitcode < 0 else f"exit code {exitcode}"


def until_idle(limit=1.0):
  """Waits until this process's threads rest, at most `limit` seconds.

  This keeps their work out of other sides' time.
  """
  deadline, before = time.monotonic() + limit, time.process_time()
  while time.monotonic() < deadline:
    time.sleep(0.05)
    now = time.process_time()
    if now - before < 0.002:
      return
    before = now


def _resident():
  """Returns this process's memory in bytes now."""
  try:
    with open("/proc/self/statm") as file:
      return int(file.read().split()[1]) * resource.getpagesize()
  except OSError:  # no Linux: the peak
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
