"""The documentation is made from the code: its references miss nothing, and it builds without a
warning.
"""

import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import trainer
from docs.tools import draw
from tests.docs import guide
from trainer import errors, testing


@pytest.fixture(scope="module")
def references():
  pytest.importorskip("griffe", reason="needs the extra [docs]")
  from docs.tools import references

  return references


@pytest.mark.parametrize("name", draw.ALL)
def test_drawings_are_current(name):
  """Otherwise: python -m docs.tools.draw"""
  assert (draw.DRAWINGS / f"{name}.svg").read_text() == draw.ALL[name]()


def test_rooms_in_a_circle_are_told():
  with pytest.raises(ValueError, match="a → b → a"):
    draw.levels({"a": {"b"}, "b": {"a"}})


def test_detours_are_left_out():
  assert draw.without_detours({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {
    "a": {"b"},
    "b": {"c"},
    "c": set(),
  }


def test_every_public_name_is_there(references):
  named = re.findall(r"^::: \S+\.(\w+)$", references.python(), re.M)
  functions = [name for name, value in vars(testing).items() if inspect.isfunction(value)]
  own = [name for name in functions if getattr(testing, name).__module__ == testing.__name__]
  assert sorted(named) == sorted([*trainer.__all__, *(name for name in own if name[0] != "_")])


def test_every_gin_name_and_parameter_is_there(references):
  page = references.gin_names()
  found = references.configurables()
  assert len(found) > 200
  for name, known in found.items():
    if not name.startswith(("gin.", "keras.", "tf.")):
      section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
      parameters = [*inspect.signature(known.wrapped).parameters]
      missing = [each for each in parameters if f"| `{each}` |" not in section]
      assert set(missing) <= {*(known.denylist or ()), "args", "kwargs", "unused_kwargs"}, name
    elif name != "gin.constant":
      assert name.startswith("gin.") or f"`{name.rpartition('.')[2]}`" in page


def test_every_flag_is_there(references):
  page = references.flags()
  for path in references.COMMANDS.values():
    defined = re.findall(r'flags\.DEFINE_\w+\(\s*"(\w+)"', (guide.ROOT / path).read_text())
    assert [name for name in defined if f"| `--{name}` |" not in page] == []
  files = [
    path for path in (guide.ROOT / "trainer").rglob("*.py") if "flags.DEFINE" in path.read_text()
  ]
  known = {guide.ROOT / path for path in references.COMMANDS.values()}
  shared = {path.name for path in set(files) - known}
  assert shared == {  # --debug, and what commands adopt
    *("command.py", "engine_flags.py", "gin_flags.py", "run_flags.py", "sweep_flags.py")
  }
  for command in ("main", "sweep"):
    section = page.partition(f"## python -m trainer.{command}\n")[2].partition("\n## ")[0]
    assert all(f"| `--{name}` |" in section for name in ("gin_file", "device", "seed"))


def test_every_error_is_there(references):
  page = references.error_classes()
  for name, value in vars(errors).items():
    if inspect.isclass(value):
      assert f"| `{name}` |" in page


def test_the_site_builds_without_a_warning(tmp_path, references):
  pytest.importorskip("mkdocs")
  pytest.importorskip("material")
  pytest.importorskip("mkdocstrings")
  done = subprocess.run(
    [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path],
    cwd=guide.ROOT,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    timeout=280,
    check=False,
    env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # the theme's, of MkDocs to come
  )
  assert done.returncode == 0, done.stdout
  assert not re.search(r"WARNING +-", done.stdout), done.stdout
  pages = [str(path.relative_to(tmp_path)) for path in pathlib.Path(tmp_path).rglob("*.html")]
  assert {"index.html", "glossary.html", "reference/gin.html", "reference/python.html"} <= set(
    pages
  )
