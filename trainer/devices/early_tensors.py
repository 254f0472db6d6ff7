"""Finds what has started TensorFlow too early: tensors, variables and layers in a module's body.

The first of them starts TensorFlow, which fixes the number of virtual cores.
"""

import ast
import pathlib
import sys
import types
from collections.abc import Iterator

import keras
import tensorflow as tf

from trainer.cli import user_code

_TENSORS = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor, tf.Variable, keras.Variable)


def places() -> list[str]:
  """Returns a phrase for each tensor, variable or built layer at the top of a program's module."""
  return [f"{name} ({where})" for module in _own_modules() for name, where in _tensors_in(module)]


def _own_modules() -> Iterator[types.ModuleType]:
  """Yields the modules of the program: not Python's, no installed ones, and none of Octet's."""
  for name, module in list(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if isinstance(module, types.ModuleType) and (
      name == "__main__" or (file and user_code.is_users(file))
    ):
      yield module


def _tensors_in(module):
  file = getattr(module, "__file__", None)
  for name, value in list(vars(module).items()):
    if not name.startswith("_") and _has_values(value):
      yield name, f"{file}:{_line(file, name)}" if file else f"of {module.__name__}"


def _has_values(value):
  if isinstance(value, keras.Layer | keras.optimizers.Optimizer):
    return bool(value.variables)
  # tf.is_tensor reads attributes of any object. An Estimator of trainer.compat would then connect
  # to its device, while this function runs during a connection.
  return isinstance(value, _TENSORS)


def _line(file, name):
  """Returns the line of the last statement at a file's top level that assigns a name, or 1."""
  try:
    body = ast.parse(pathlib.Path(file).read_text()).body
  except (OSError, SyntaxError, UnicodeDecodeError):  # it has changed since, or is no source
    return 1
  lines = [
    node.lineno
    for node in body
    if any(isinstance(inner, ast.Name) and inner.id == name for inner in _targets(node))
  ]
  return lines[-1] if lines else 1


def _targets(node):
  targets = getattr(node, "targets", [getattr(node, "target", None)])
  return [inner for target in targets if target is not None for inner in ast.walk(target)]
