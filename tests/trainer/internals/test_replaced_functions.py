"""docs/replaced_functions.md names each replacement of TensorFlow's and Keras's functions.

There are none beside `patches.replaces`.
"""

import ast
import pathlib
import re

import pytest

import trainer
from docs.tools import syntax

TRAINER = pathlib.Path(trainer.__file__).parent
PAGE = TRAINER.parent / "docs" / "replaced_functions.md"
LIBRARIES = ("keras", "tensorboard", "tf", "v1")


def replaced(source):
  """What a file replaces, as written in its calls of `replaces` and `setattr`."""
  for node in ast.walk(syntax.tree(source)):
    if not isinstance(node, ast.Call):
      continue
    name = ast.unparse(node.func)
    given = ", ".join(map(ast.unparse, node.args[:2]))
    if name.rpartition(".")[2] == "replaces" or (name == "setattr" and of_library(node.args[0])):
      yield given


def of_library(node):
  return ast.unparse(node).partition(".")[0] in LIBRARIES


def assigned(source):
  """Attributes of the libraries that a file assigns."""
  for node in ast.walk(syntax.tree(source)):
    for target in getattr(node, "targets", [getattr(node, "target", None)]):
      if isinstance(target, ast.Attribute) and of_library(target):
        yield f"{node.lineno}: {ast.unparse(target)}"


def files():
  return [path for path in sorted(TRAINER.rglob("*.py")) if path.name != "patches.py"]


def test_the_page_names_every_replacement_with_its_reason():
  rows = re.findall(r"^\| `([\w/]+\.py)` \| `(.+?)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.M)
  found = {
    (str(path.relative_to(TRAINER)), what)
    for path in files()
    for what in replaced(path.read_text())
  }
  assert {row[:2] for row in rows} == found
  assert len(rows) == len(found)


def test_nothing_is_replaced_past_patches():
  lines = {str(path): list(assigned(path.read_text())) for path in files()}
  assert {path: found for path, found in lines.items() if found} == {}


@pytest.mark.parametrize(
  ("source", "what"),
  [
    ('@patches.replaces(tf.Graph, "f", inside=_x)\ndef g(): ...', ["tf.Graph, 'f'"]),
    ("patches.replaces(*names.F)(g)", ["*names.F"]),
    ('setattr(keras.layers.Layer, "x", 1)', ["keras.layers.Layer, 'x'"]),
    ("setattr(self, name, 1)", []),
  ],
)
def test_a_replacement_is_found(source, what):
  assert list(replaced(source)) == what


def test_an_assignment_to_a_library_is_found():
  assert list(assigned("tf.Tensor.value = 1\nx.y = 2")) == ["1: tf.Tensor.value"]
