"""The sides of a comparison, each in a process of its own, that take turns.

    def bare(turns, case):           # a side: prepares, then does a slice of work in each turn
      ...
      while turns.take():
        train(case.steps)

    both = {"octet": Side(octet, {"case": case}), "bare": Side(bare, {"case": case})}
    slices = sides.alternate(both, rounds=10)
    slices["octet"].seconds          # one for each round

A process of its own gives each side thread pools, settings and a peak of memory of its own. While
one works, the others rest: before a side gives its turn away it waits until its threads have filled
what they may fill ahead.
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
  """A function of the `Turns` and of these arguments, that prepares and then works in each turn."""

  function: Callable
  arguments: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Slices:
  """What was measured of a side.

  Attributes:
    seconds: of each round, by the clock.
    resident: bytes of memory that the process has after each round.
    peak: bytes, the most that it ever had.
    failed: why there are none of the later rounds, in a line; "" where there are all.
  """

  seconds: list
  resident: list
  peak: int = 0
  failed: str = ""


class _SideFailed(Exception):
  """A side raised an error, or its process is gone."""


class Turns:
  """The side's end: `take` ends the slice before, and returns at the start of the next, or
  false where there is none.
  """

  def __init__(self, connection):
    self._connection = connection
    self._start = None

  def take(self, rest=None):
    """See above.

    Args:
      rest: returns when what worked in the slice rests; None: when this process's threads do.
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
  """Runs the sides in turn, in an order that is reversed from round to round.

  Args:
    sides: dict of name → Side.
    rounds: slices of each that count.
    warm: slices of each before those, in which compilers and caches do what they do once.

  Returns:
    dict of name → Slices. One that fails is asked no more, and its Slices say why; the others go
    on.
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
    for name, side in sides.items():  # one prepares after another
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
  """Which of these sides failed, and why, in a line; "" if none did."""
  return "; ".join(f"{name}: {slices[name].failed}" for name in names if slices[name].failed)


def ratios(slices, other, ours="octet"):
  """Our speed ÷ the other's, of each round: a tuple of floats, () if one of them failed."""
  if failure(slices, ours, other):
    return ()
  return tuple(
    theirs / mine for mine, theirs in zip(slices[ours].seconds, slices[other].seconds, strict=True)
  )


def note(slices, examples, other, ours="octet"):
  """What stands beside a ratio: the speeds of both, of slices of so many examples, and the most
  memory that they had; or which of them failed.
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
  except BaseException:  # whatever it is, the other process says so
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
  """Returns when this process's threads rest, so that they do not work in the time of another
  side; at the latest after `limit` seconds.
  """
  deadline, before = time.monotonic() + limit, time.process_time()
  while time.monotonic() < deadline:
    time.sleep(0.05)
    now = time.process_time()
    if now - before < 0.002:
      return
    before = now


def _resident():
  """Bytes of memory that this process has now."""
  try:
    with open("/proc/self/statm") as file:
      return int(file.read().split()[1]) * resource.getpagesize()
  except OSError:  # no Linux: the peak
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
