"""docs/replaced_functions.md names each replacement of TensorFlow's and Keras's functions.

There are none beside `patches.replaces`.
"""

import ast

import pytest

from docs.tools import replacements, syntax


def assigned(source):
  """Attributes of the libraries that a file assigns."""
  for node in ast.walk(syntax.tree(source)):
    for target in getattr(node, "targets", [getattr(node, "target", None)]):
      if isinstance(target, ast.Attribute) and replacements.of_library(target):
        yield f"{node.lineno}: {ast.unparse(target)}"


def test_the_page_names_every_replacement_with_its_reason():
  """Otherwise: python -m docs.tools.replacements, and write the reasons of new rows."""
  text = replacements.PAGE.read_text()
  assert text == replacements.page()
  assert [row for row in replacements.rows(text) if not all(row)] == []


def test_nothing_is_replaced_past_patches():
  lines = {str(path): list(assigned(path.read_text())) for path in replacements.files()}
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
  assert list(replacements.replaced(source)) == what


def test_an_assignment_to_a_library_is_found():
  assert list(assigned("tf.Tensor.value = 1\nx.y = 2")) == ["1: tf.Tensor.value"]
