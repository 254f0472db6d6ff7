"""Halves the time of importing TensorFlow and Keras.

    import_time.shorten()
    import tensorflow

A short run spends most of its time in the import, in two parts that it does not need:

- Keras imports scikit-learn and matplotlib, if installed, for its wrappers of estimators and its
  galleries of images. Here these modules of Keras load at first use.
- The garbage collector walks several times through a million objects that stay.
"""

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator
from typing import Any

# Keras imports these modules whole and does not touch a lazy one. It imports names from their inner
# modules at once, so those cannot be lazy.
_LAZY = frozenset(
  {
    "keras.src.visualization",
    "keras.visualization",
    "keras.wrappers",
    "keras._tf_keras.keras.visualization",
    "keras._tf_keras.keras.wrappers",
    "keras.api.visualization",  # up to Keras 3.9
    "keras.api.wrappers",
  }
)


def shorten() -> None:
  """Shortens the imports of TensorFlow and Keras that have not happened yet.

  Each imports the other: Keras is the first in a program that sorts its imports.
  """
  for name in ("tensorflow", "keras"):
    if name not in sys.modules:
      sys.meta_path.insert(0, _Finder(name))


class _Finder(importlib.abc.MetaPathFinder):
  """Finds a module as the finders after it do, and shortens its first execution.

  It stays if a program only asks whether there is such a module.
  """

  def __init__(self, module: str) -> None:
    self._module = module

  def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
    """See importlib.abc.MetaPathFinder."""
    if fullname != self._module:
      return None
    place = sys.meta_path.index(self)
    sys.meta_path.remove(self)
    try:
      spec = importlib.util.find_spec(fullname)
    finally:
      sys.meta_path.insert(place, self)
    if spec is not None and spec.loader is not None:
      load = spec.loader.exec_module

      def load_within(module):
        is_first = self in sys.meta_path
        if is_first:
          sys.meta_path.remove(self)
        with _shortened() if is_first else contextlib.nullcontext():
          load(module)

      spec.loader.exec_module = load_within  # type: ignore[method-assign]
    return spec


@contextlib.contextmanager
def _shortened() -> Iterator[None]:
  finder = _LazyModules()
  sys.meta_path.insert(0, finder)
  collects = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    sys.meta_path.remove(finder)
    # Moves all objects to the oldest generation. The next collection would go through them else.
    gc.freeze()
    gc.unfreeze()
    if collects:
      gc.enable()


class _LazyModules(importlib.abc.MetaPathFinder):
  """Finds modules of Keras that load when a program first reads a name from them."""

  def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
    """See importlib.abc.MetaPathFinder."""
    if fullname not in _LAZY:
      return None
    found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
    if found is not None and found.loader is not None:
      found.loader = _LazyLoader(found.loader)
    return found


class _LazyLoader(importlib.util.LazyLoader):
  """Loads a module at the first use of a name other than its own and its file's."""

  def exec_module(self, module: types.ModuleType) -> None:
    """See importlib.abc.Loader."""
    super().exec_module(module)
    lazy = type(module)

    class OfKnownFile(lazy):  # type: ignore[misc, valid-type]
      # AutoGraph and `inspect` ask every module of the process for its file, to find the source of
      # a function. Each would load scikit-learn and matplotlib.
      def __getattribute__(self, name: str) -> Any:
        if name in ("__file__", "__name__"):
          return types.ModuleType.__getattribute__(self, name)
        # Its loading begins only if this is the class.
        object.__setattr__(self, "__class__", lazy)
        return getattr(self, name)

    module.__class__ = OfKnownFile
