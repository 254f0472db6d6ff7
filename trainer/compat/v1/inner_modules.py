"""tf.contrib.X.python.Y.Z: the modules inside of contrib that programs import, as tf.contrib.X.

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

from trainer.compat.v1 import absent

_PACKAGE = "trainer.compat.v1"
_PATH = re.compile(rf"({re.escape(_PACKAGE)}\.contrib\.\w+)\.python((?:\.\w+)*)")
_DEPTH = 2  # of what is a module below `python`: its folder, and the module


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
    if found is None or found[2].count(".") > _DEPTH:
      return None
    return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

  def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
    return InnerModule(spec.name)

  def exec_module(self, module: ModuleType) -> None:
    """Nothing: its names are those of another one."""


def _outer_and_depth(fullname: str) -> tuple[ModuleType, int]:
  """(the module of contrib, how far below `python` a module is)."""
  found = _PATH.fullmatch(fullname)
  assert found is not None
  return importlib.import_module(found[1]), found[2].count(".")
