"""Which tests the gate leaves to the nightly workflow.

    pytest --choose      # runs the tests with coverage.py, and writes nightly.json anew

The gate runs every branch of trainer/, models/ and input_pipelines/ that a test runs, on each kind
of device (one core, several cores, XLA devices), and in the code's own file of tests if that file
does. It runs all tests that take less than `SMALL` seconds, those of `WHOLE`, those that spend most
of their time in other processes, whose branches nobody sees, and those that caught a mutation alone
(`python -m tests.slow.mutations`). Of the others it runs those that add the most branches in a
second of CPU time, until no branch is left, except those that the later ones make needless. The
rest has the mark `long`.
"""

import contextlib
import heapq
import json
import math
import os
import pathlib
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import pytest

from tests import durations, warm

ROOT = pathlib.Path(__file__).parents[1]
FILE = ROOT / "tests" / "nightly.json"
BRANCHES = ROOT / ".branches"  # the last measurement: coverage.py's files, and the runs
_RUNS = BRANCHES / "runs.json"
SMALL = 0.1  # seconds of CPU time
KINDS = ("one", "several", "xla")
_KEYS = ("own", *KINDS)  # of the branches of a test: in the code's own file of tests, and by kind
CODE = ("trainer", "models", "input_pipelines")
# The properties of Octet on each device and of each way to write a model, what earlier versions
# and TensorFlow 2.15 left, threads, signals and locks, whose lines any training runs, and the
# rules of the source files.
WHOLE = re.compile(
  r"tests/(conformance|docs|golden)/|tests/test_|tests/compat/test_graph_meaning\."
  r"|tests/trainer/(test_threads|loop/test_preemption|loop/test_training_lock)\."
)


class Run(NamedTuple):
  """What a test did: its CPU time in seconds, also in other processes; its kinds of devices.

  A test may take devices of several KINDS.
  """

  seconds: float
  kinds: tuple[str, ...]
  elsewhere: float  # the seconds in other processes


class Branch(NamedTuple):
  """A step from a line to a line of a file, a path below ROOT. -N is the exit of the code at N."""

  file: str
  start: int
  end: int


def add_option(parser: pytest.Parser) -> None:
  """Adds --choose."""
  parser.addoption("--choose", action="store_true", help=f"run all tests and write {FILE.name}")


def mark(items: Iterable[pytest.Item]) -> None:
  """Marks the tests that the nightly workflow runs."""
  nightly = set(json.loads(FILE.read_text())["nightly"])
  for item in items:
    if item.nodeid in nightly:
      item.add_marker(pytest.mark.long)


def choose(
  runs: Mapping[str, Run],
  branches: Sequence[Branch],
  seen: Mapping[str, Set[int]],
  alone: Collection[str],
) -> list[str]:
  """Returns the tests that the nightly workflow runs, in alphabetical order.

  Args:
    runs: the tests by their names.
    branches: all branches.
    seen: the places in `branches` of those that each test ran; a test that ran none is in the gate.
    alone: tests that the gate keeps, as each caught a mutation that no other test caught.
  """
  parts = _parts(runs, branches, seen)
  left = {key: set().union(*(part.get(key, ()) for part in parts.values())) for key in _KEYS}

  def take(test):
    for key, ran in parts[test].items():
      left[key] -= ran

  gate, others, chosen = [], set(), []
  for test, run in runs.items():
    is_seen = seen.get(test) and run.elsewhere < run.seconds / 2
    if is_seen and run.seconds >= SMALL and test not in alone and not WHOLE.match(test):
      others.add(test)
    else:
      gate.append(test)
      take(test)
  # First each file of tests covers its own code, since other tests then have less to add. A test
  # adds less the more tests are taken. So its value of an earlier round is an upper bound, and a
  # test whose new value is still the highest is the best.
  for keys in (_KEYS[:1], _KEYS[1:]):
    bounds = [(-math.inf, test) for test in sorted(others)]
    while bounds:
      bound, test = heapq.heappop(bounds)
      added = sum(len(ran & left[key]) for key, ran in parts[test].items() if key in keys)
      value = added / runs[test].seconds
      if not added:
        continue
      if -value <= bound:
        others.discard(test)
        chosen.append(test)
        take(test)
      else:
        heapq.heappush(bounds, (-value, test))
  chosen.sort(key=lambda test: (-runs[test].seconds, test))
  return sorted(others | _needless(chosen, gate, parts))


def _parts(runs, branches, seen):
  """Returns what each test runs: for each of _KEYS the numbers of branches."""
  of_file = {}
  for number, branch in enumerate(branches):
    of_file.setdefault(own_tests(branch.file), set()).add(number)
  parts = {}
  for test, run in runs.items():
    ran = seen.get(test, set())
    own = ran & of_file.get(test.partition("::")[0], set())
    parts[test] = {"own": own} | dict.fromkeys(run.kinds, ran)
  return parts


def _needless(chosen, gate, parts):
  """Returns the chosen tests whose branches the other tests run, too.

  It tries the tests in the order of `chosen`, and a needless test no longer counts for later ones.
  """
  times = Counter()
  for test in (*gate, *chosen):
    times.update(_numbered(parts[test]))
  needless = set()
  for test in chosen:
    if all(times[each] > 1 for each in _numbered(parts[test])):
      times.subtract(_numbered(parts[test]))
      needless.add(test)
  return needless


def _numbered(part):
  return [(key, number) for key, ran in part.items() for number in ran]


def own_tests(file: str) -> str:
  """Returns the file of tests of a file of code, both paths below ROOT."""
  folder, name = os.path.split(file)
  return f"tests/{folder}/test_{name}"


class Recorder:
  """A plugin that notes the branches of each test; pytest-xdist's workers hand on what they saw."""

  def __init__(self, config: pytest.Config) -> None:
    import coverage

    if config.option.file_or_dir:
      raise pytest.UsageError(
        f"--choose compares all tests with each other; got {config.option.file_or_dir} alone."
      )
    self._runs: dict[str, Run] = {}
    self._kinds: set[str] = set()
    self._is_worker = hasattr(config, "workerinput")
    if not self._is_worker:
      shutil.rmtree(BRANCHES, ignore_errors=True)
      BRANCHES.mkdir()
    self._coverage = coverage.Coverage(
      data_file=str(BRANCHES / f"{os.getpid()}.coverage"),
      branch=True,
      config_file=False,
      include=[str(ROOT / folder / "*") for folder in CODE],
    )
    self._coverage.start()

  def pytest_collection_finish(self):
    """Notes the devices that tests take."""
    from trainer.devices import device

    connect = device.connect

    def connect_noted(name="auto", *args, **kwargs):
      connected = connect(name, *args, **kwargs)
      if isinstance(connected, device.Device):  # not a stand-in of a test
        self._kinds.add(_kind(connected))
      return connected

    device.connect = connect_noted

  @pytest.hookimpl(wrapper=True, tryfirst=True)
  def pytest_runtest_protocol(self, item):
    """Notes one test with its fixtures."""
    self._kinds.clear()
    self._coverage.switch_context(item.nodeid)
    seconds, elsewhere = durations.cpu_time(), _of_processes()
    result = yield
    self._runs[item.nodeid] = Run(
      round(durations.cpu_time() - seconds, 3),
      tuple(sorted(self._kinds)) or ("one",),
      round(_of_processes() - elsewhere, 3),
    )
    self._coverage.switch_context("")
    return result

  @pytest.hookimpl(optionalhook=True)
  def pytest_testnodedown(self, node, error):
    """Takes what a worker has noted."""
    found = getattr(node, "workeroutput", {}).get(FILE.name, {})
    self._runs |= {test: _run(fields) for test, fields in found.items()}

  def pytest_sessionfinish(self, session, exitstatus):
    """Writes the file if all tests passed, or hands on."""
    self._coverage.stop()
    self._coverage.save()
    if self._is_worker:
      found = {test: list(run) for test, run in self._runs.items()}
      session.config.workeroutput[FILE.name] = found
      return
    if exitstatus != pytest.ExitCode.OK:
      return
    _RUNS.write_text(json.dumps(self._runs))
    alone = [test for test in json.loads(FILE.read_text())["alone"] if test in self._runs]
    _write(alone, choose(self._runs, *read_branches(), alone))


def bring_back(tests: Collection[str]) -> None:
  """Has the gate run tests that caught a mutation alone."""
  before = json.loads(FILE.read_text())
  _write({*before["alone"], *tests}, set(before["nightly"]) - set(tests))


def _write(alone, nightly):
  found = {"alone": sorted(alone), "nightly": sorted(nightly)}
  FILE.write_text(json.dumps(found, indent=0) + "\n")


def read_runs() -> dict[str, Run]:
  """Returns the tests of the last measurement.

  Raises:
    SystemExit: there is none, or a test of it failed.
  """
  if not _RUNS.exists():
    raise SystemExit(f"{_RUNS} is missing: run `pytest --choose` first, until all tests pass.")
  return {test: _run(fields) for test, fields in json.loads(_RUNS.read_text()).items()}


def _run(fields):
  seconds, kinds, elsewhere = fields
  return Run(seconds, tuple(kinds), elsewhere)


def read_branches() -> tuple[list[Branch], dict[str, set[int]]]:
  """Returns the branches of the last measurement, and the numbers of those that each test ran."""
  numbers: dict[Branch, int] = {}
  found: dict[str, set[int]] = {}
  for path in sorted(BRANCHES.glob("*.coverage")):
    # https://coverage.readthedocs.io/en/latest/dbschema.html; its own reader asks test by test.
    with contextlib.closing(sqlite3.connect(path)) as database:
      rows = database.execute(
        "SELECT context, path, fromno, tono FROM arc"
        " JOIN context ON context.id = context_id JOIN file ON file.id = file_id"
      )
      for test, file, start, end in rows:
        if test:
          branch = Branch(os.path.relpath(file, ROOT), start, end)
          found.setdefault(test, set()).add(numbers.setdefault(branch, len(numbers)))
  return list(numbers), found


def _kind(device):
  if device.kind in ("xla", "tpu"):
    return "xla"
  return "several" if device.replicas > 1 else "one"


def _of_processes():
  return sum(os.times()[2:4]) + warm.spent_seconds
