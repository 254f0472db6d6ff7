"""CPU time of each test: which tests are quick, and where the time of the gate goes.

    pytest --measure      # runs the tests, and writes durations.json anew
    pytest -m quick       # the tests that durations.json does not list

durations.json has the functions whose slowest case took at least QUICK seconds, with these
seconds. A new test is quick until somebody measures.
"""

import json
import os
import pathlib

import pytest

from tests import warm

FILE = pathlib.Path(__file__).with_suffix(".json")
QUICK = 0.2  # seconds of CPU time, of the process and of those that it has waited for


def add_option(parser: pytest.Parser) -> None:
  """Adds --measure."""
  parser.addoption("--measure", action="store_true", help=f"write {FILE.name} of these tests")


def mark_quick(items: list[pytest.Item]) -> None:
  """Marks the tests that are neither long nor in the file."""
  slow = json.loads(FILE.read_text())
  for item in items:
    if _function(item.nodeid) not in slow and not item.get_closest_marker("long"):
      item.add_marker(pytest.mark.quick)


def merged(before: dict[str, float], found: dict[str, float]) -> dict[str, float]:
  """Returns what the file shall have.

  Args:
    before: what it has. Functions that were not run stay, unless their file is gone.
    found: seconds of the slowest case of each function that was run.
  """
  kept = {name: each for name, each in before.items() if name not in found and _is_there(name)}
  slow = {name: round(each, 1) for name, each in found.items() if each >= QUICK}
  return dict(sorted((kept | slow).items()))


class Recorder:
  """A plugin that measures each test; pytest-xdist's workers hand on to the controller."""

  def __init__(self) -> None:
    self._found: dict[str, float] = {}

  @pytest.hookimpl(wrapper=True, tryfirst=True)
  def pytest_runtest_protocol(self, item):
    """Measures one test with its fixtures."""
    before = cpu_time()
    result = yield
    self._add({_function(item.nodeid): cpu_time() - before})
    return result

  @pytest.hookimpl(optionalhook=True)
  def pytest_testnodedown(self, node, error):
    """Takes what a worker has measured."""
    self._add(getattr(node, "workeroutput", {}).get(FILE.name, {}))

  def pytest_sessionfinish(self, session):
    """Writes the file, or hands on."""
    if hasattr(session.config, "workeroutput"):
      session.config.workeroutput[FILE.name] = self._found
    else:
      found = merged(json.loads(FILE.read_text()), self._found)
      FILE.write_text(json.dumps(found, indent=0) + "\n")

  def _add(self, found):
    for name, each in found.items():
      self._found[name] = max(each, self._found.get(name, 0.0))


def cpu_time() -> float:
  """Returns the seconds of this process, and of those that it has waited for."""
  return sum(os.times()[:4]) + warm.spent_seconds


def _function(nodeid):
  return nodeid.partition("[")[0]


def _is_there(name):
  return (FILE.parents[1] / name.partition("::")[0]).exists()
