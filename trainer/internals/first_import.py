"""Makes the first import of a module run inside a context, wherever the import happens.

sys.meta_path.insert(0, first_import.Finder("tensorflow", context))
import tensorflow  # runs inside context()
"""

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class Finder(importlib.abc.MetaPathFinder):
  """Finds a module as the finders after it do, and opens a context around its first execution.

  It stays if a program only asks whether there is such a module.

  Args:
    module: its full name.
    context: makes the context.
  """

  def __init__(self, module: str, context: Callable[[], AbstractContextManager[None]]) -> None:
    self._module = module
    self._context = context

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
        with self._context() if is_first else contextlib.nullcontext():
          load(module)

      spec.loader.exec_module = load_within  # type: ignore[method-assign]
    return spec
