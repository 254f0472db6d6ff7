"""docs/architecture.md is true, and what it promises to keep small is small."""

import pathlib

import pytest

from docs.tools import architecture, draw

PAGE = architecture.PAGE.read_text()
WALKS = architecture.walks(PAGE)


@pytest.fixture(scope="module")
def graph():
  return draw.imports_of_rooms(architecture.TRAINER)


def test_the_table_has_every_room_once(graph):
  rooms = architecture.rooms(PAGE)
  assert len(rooms) == len(set(rooms))
  assert set(rooms) == set(graph)


def test_no_room_imports_from_a_room_above(graph):
  assert architecture.arrows_back(architecture.rooms(PAGE), graph) == []


def test_no_modules_import_each_other_in_a_circle():
  assert architecture.circles(architecture.imports_of_modules(architecture.TRAINER)) == []


def test_a_function_fits_on_a_screen():
  assert architecture.long_functions(architecture.TRAINER.rglob("*.py")) == []


def test_a_room_keeps_to_its_budget():
  lines = architecture.lines_of_rooms()
  assert architecture.over_budget(lines, architecture.BUDGETS) == []


def test_a_room_over_its_budget_is_named(tmp_path):
  for name in ("spec.py", "loop/a.py", "compat/v1/b.py", "compat/c.py"):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text('"""A docstring."""\n\n# A comment.\nx = 1\ny = 2\n')
  lines = architecture.lines_of_rooms(tmp_path)
  assert lines == {"*.py": 2, "loop": 2, "compat/v1": 2, "compat": 2}
  budgets = {"*.py": 2, "loop": 1, "compat": 3, "gone": 9}
  assert architecture.over_budget(lines, budgets) == [
    "compat/v1: 2 lines, budget missing",
    "loop: 2 lines, budget 1",
    "gone: no such room",
  ]


def test_few_files_lie_beside_the_rooms():
  files = list(architecture.TRAINER.glob("*.py"))
  assert len(files) <= architecture.MOST_FILES_AT_THE_TOP


def test_the_page_has_its_walks():
  assert len(WALKS) == 4
  assert all(len(walk) > 3 for walk in WALKS.values())


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_files_that_are_there_and_none_twice(title):
  assert architecture.wrong_steps(WALKS[title]) == []


def test_each_rule_finds_what_breaks_it(tmp_path):
  table = "From the bottom to the top:\n\n| room | what |\n|---|---|\n| `a.py`, `b/` | `c/` |\n"
  assert architecture.rooms(table) == ["a", "b"]
  assert architecture.arrows_back(["a", "b"], {"a": {"b"}, "b": set()}) == ["a → b"]
  assert architecture.circles({"a": {"b"}, "b": {"a", "c"}, "c": set()}) == [["a", "b"]]
  page = "## Three walks\n\n**One.** `loop/step.py` and `errors.py`, `errors.py`.\n"
  assert architecture.walks(page) == {"One": ["loop/step.py", "errors.py", "errors.py"]}
  (tmp_path / "errors.py").touch()
  assert architecture.wrong_steps(["loop/step.py", "errors.py", "errors.py"], tmp_path) == [
    "loop/step.py is not there",
    "errors.py is named 2 times",
  ]


def test_long_functions_are_found_and_docstrings_do_not_count(tmp_path, monkeypatch):
  monkeypatch.setattr(draw, "ROOT", tmp_path)
  path = tmp_path / "long.py"
  path.write_text(
    "def short():\n" + '  """A word.\n' + "  and more\n" * 70 + '  """\n'
    "def long():\n" + "  x = 1\n" * 60
  )
  assert architecture.long_functions([path]) == ["long.py: long, 61 lines"]


def test_modules_that_import_each_other_are_found(tmp_path: pathlib.Path):
  room = tmp_path / "octet"
  room.mkdir()
  (room / "a.py").write_text("from octet import b\n")
  (room / "b.py").write_text("def late():\n  from octet.a import x\n")
  graph = architecture.imports_of_modules(room)
  assert architecture.circles(graph) == [["octet.a", "octet.b"]]
