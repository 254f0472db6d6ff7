"""The documentation is made from the code: its references miss nothing, and it builds without a
warning.
"""

import inspect
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import trainer
from docs.tools import draw, layers
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


GRAPH = {
  "top": {"left", "right"},
  "other": {"left", "bottom"},
  "left": {"bottom"},
  "right": {"middle"},
  "middle": {"bottom"},
  "bottom": set(),
}


def test_nodes_of_a_layer_do_not_overlap_each_other_or_edges():
  layer = draw.levels(GRAPH)
  widths = {node: 60.0 + 10 * len(node) for node in GRAPH}
  found = layers.place(GRAPH, layer, widths)
  spans = {
    level: sorted(
      (found.x[node] - widths[node] / 2, found.x[node] + widths[node] / 2)
      for node in GRAPH
      if layer[node] == level
    )
    for level in set(layer.values())
  }
  for row in spans.values():
    assert all(first[1] < second[0] for first, second in itertools.pairwise(row))
    assert row[0][0] >= 0
    assert row[-1][1] <= found.width
  assert set(found.ways) == {(start, end) for start, ends in GRAPH.items() for end in ends}
  for (start, end), way in found.ways.items():
    assert (way[0], way[-1]) == (found.x[start], found.x[end])
    assert len(way) == 1 + layer[start] - layer[end]
    for below, x in enumerate(way[1:-1], 1):
      assert not any(low < x < high for low, high in spans[layer[start] - below])


@pytest.mark.parametrize("name", draw.ALL)
def test_drawings_follow_light_and_dark_alone_and_on_the_site(name):
  text = draw.ALL[name]()
  assert "prefers-color-scheme: dark" in text
  assert '[data-md-color-scheme="slate"] .drawing {' in text
  rules = re.search("<style>(.*?)</style>", text, re.S)[1]
  selectors = re.findall(r"([^{}]+){", rules)
  assert all(".drawing" in each or "@media" in each for each in selectors)  # no other part's
  body = text.partition("</style>")[2]
  assert not re.search("#[0-9a-f]{6}", body)  # colours have names, which dark pages change


def test_every_public_name_is_there_under_its_public_name(references):
  named = re.findall(r"^::: trainer\.(?:testing\.)?(\w+)$", references.python(), re.M)
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


def test_every_error_is_there(references):
  page = references.error_classes()
  for name, value in vars(errors).items():
    if inspect.isclass(value) and issubclass(value, errors.OctetError):
      assert f"| `{name}` |" in page


def test_notebook_becomes_a_page_with_its_cells_and_a_link(tmp_path, references):
  pytest.importorskip("mkdocs")
  from docs.tools import hooks

  path = tmp_path / "first.ipynb"
  cells = [
    {"cell_type": "markdown", "source": ["# A title\n", "\n", "Text."]},
    {"cell_type": "code", "source": ["x = 1\n", "y = 2"]},
  ]
  path.write_text(json.dumps({"cells": cells}))
  lines = hooks.notebook(path).split("\n\n")
  assert lines[0] == "# A title"
  assert 'href="first.ipynb"' in lines[1]
  assert lines[-1] == "```python\nx = 1\ny = 2\n```"


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
  assert {"tutorial.html", "notebooks/quickstart.html"} <= set(pages)
  python = (tmp_path / "reference" / "python.html").read_text()
  assert 'id="trainer.BestExporter"' in python
  # A signature has a line for each parameter.
  signature = re.search(r'id="trainer.BestExporter".*?<pre>.*?<code>(.*?)</code>', python, re.S)[1]
  assert re.sub("<[^>]+>", "", signature).count("\n") > 5
  house = (tmp_path / "architecture.html").read_text()
  assert house.count('<svg xmlns="http://www.w3.org/2000/svg" class="drawing"') == 3
  start = (tmp_path / "index.html").read_text()
  assert 'href="notebooks/quickstart.html"' in start
