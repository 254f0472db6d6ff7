"""Modules inside of TensorFlow that programs import: tf.contrib.X.python.Y.Z as tf.contrib.X, and
some of tensorflow_estimator.

`from tensorflow.contrib.tpu.python.tpu import tpu_config` was TensorFlow's own way to get at
`tf.contrib.tpu.TPUConfig`. Such a module has the names of `contrib.X`, and no others.
"""

import importlib
import importlib.abc
import importlib.machinery
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from trainer.compat.names import absent

_PACKAGE = "trainer.compat.v1"

# Modules inside of tf.estimator that programs import, and the modules that have their names.
_OF_ESTIMATOR = {
  f"{_PACKAGE}.estimator.{inner}": f"trainer.compat.estimator.{inner}"
  for inner in (
    "canned.baseline",
    "canned.dnn",
    "canned.linear",
    "extenders",
    "hooks",
    "run_config",
    "training",
  )
}

_PATH = re.compile(rf"({re.escape(_PACKAGE)}\.contrib\.\w+)\.python((?:\.\w+)*)")
_DEPTH = 2  # of what is a module below `python`: its folder, and the module


class OtherName(ModuleType):
  """A module of _OF_ESTIMATOR, by its full name."""

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):
      raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_OF_ESTIMATOR[self.__name__]), name)


class InnerModule(ModuleType):
  """A module inside of one of contrib's.

  Args:
    name: its full name, `trainer.compat.v1.contrib.X.python.Y.Z`.
  """

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):
      raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
    outer, depth = _outer_and_depth(self.__name__)
    own = getattr(outer, self.__name__.rpartition(".")[2], None)
    if depth and isinstance(own, ModuleType) and hasattr(own, name):
      return getattr(own, name)  # as contrib.tpu has tpu_function
    if depth and hasattr(outer, name):
      return getattr(outer, name)
    if depth < _DEPTH and name.islower():
      return importlib.import_module(f"{self.__name__}.{name}")
    raise absent.AbsentNameError(f"{self.__name__}.{name}".removeprefix(f"{_PACKAGE}."))


class InnerModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """Finds and makes them."""

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    found = _PATH.fullmatch(fullname)
    is_of_contrib = found is not None and found[2].count(".") <= _DEPTH
    if not is_of_contrib and fullname not in _OF_ESTIMATOR:
      return None
    return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

  def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
    return (OtherName if spec.name in _OF_ESTIMATOR else InnerModule)(spec.name)

  def exec_module(self, module: ModuleType) -> None:
    """Nothing: its names are those of another one."""


def _outer_and_depth(fullname: str) -> tuple[ModuleType, int]:
  """(the module of contrib, how far below `python` a module is)."""
  found = _PATH.fullmatch(fullname)
  assert found is not None
  return importlib.import_module(found[1]), found[2].count(".")
