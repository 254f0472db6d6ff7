"""The first import of a module runs in a context, and questions about the module do not count."""

import contextlib
import importlib
import importlib.util
import sys

import pytest

from trainer.internals import first_import

NAME = "octet_tests_imported_first"


@pytest.fixture
def imported(tmp_path, monkeypatch):
  """Returns what happens in the import of a module with the text, by a list of events."""
  events = []

  @contextlib.contextmanager
  def context():
    events.append("before")
    try:
      yield
    finally:
      events.append("after")

  def write(text):
    (tmp_path / f"{NAME}.py").write_text(text)
    importlib.invalidate_caches()

  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.setattr(sys, "meta_path", [first_import.Finder(NAME, context), *sys.meta_path])
  monkeypatch.setattr(sys, "octet_events", events, raising=False)
  yield write, events
  sys.modules.pop(NAME, None)


def finders():
  return [finder for finder in sys.meta_path if getattr(finder, "_module", "") == NAME]


TEXT = "import sys\nsys.octet_events.append('module')\n"


def test_the_module_runs_in_the_context_once(imported):
  write, events = imported
  write(TEXT)
  module = importlib.import_module(NAME)
  assert (events, finders()) == (["before", "module", "after"], [])
  importlib.reload(module)
  assert events == ["before", "module", "after", "module"]


def test_a_question_for_the_module_does_not_count(imported):
  write, events = imported
  write(TEXT)
  assert importlib.util.find_spec(NAME).name == NAME
  importlib.import_module(NAME)
  assert events == ["before", "module", "after"]


def test_a_second_execution_has_no_context(imported):
  write, events = imported
  write(TEXT)
  specs = [importlib.util.find_spec(NAME) for _ in range(2)]
  for spec in specs:
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
  assert events == ["before", "module", "after", "module"]


def test_a_module_that_comes_later_runs_in_the_context(imported):
  write, events = imported
  with pytest.raises(ModuleNotFoundError, match=NAME):
    importlib.import_module(NAME)
  write(TEXT)
  importlib.import_module(NAME)
  assert events == ["before", "module", "after"]


def test_the_context_ends_when_the_module_fails(imported):
  write, events = imported
  write(TEXT + "1 / 0")
  with pytest.raises(ZeroDivisionError):
    importlib.import_module(NAME)
  assert (events, finders()) == (["before", "module", "after"], [])


def test_two_finders_open_both_contexts(imported):
  write, events = imported
  write(TEXT)
  outer = lambda: contextlib.ExitStack()
  sys.meta_path.insert(0, first_import.Finder(NAME, outer))
  importlib.import_module(NAME)
  assert (events, finders()) == (["before", "module", "after"], [])
