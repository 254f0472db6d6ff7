"""tf.contrib.slim.nets: the networks of the package tf_slim, over the layers of trainer.compat.

    from trainer.compat.v1.contrib.slim.nets import resnet_v2

Programs cannot import tf_slim itself beside Keras 3. The modules of this package are tf_slim's
files, with two changed imports: TensorFlow and tf_slim.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import types
from collections.abc import Sequence

_IMPORTS = {
  rb"^import tensorflow\.compat\.v1 as tf": b"import trainer.compat.v1 as tf",
  rb"^from tf_slim\b": b"from trainer.compat.v1.contrib.slim",
}


class _Loader(importlib.abc.SourceLoader):
  """Reads a file of tf_slim.

  It returns no times of files, so Python keeps no bytecode: the cache would be tf_slim's own.
  """

  def __init__(self, path: pathlib.Path):
    self._path = path

  def get_filename(self, fullname: str) -> str:
    return str(self._path)

  def get_data(self, path: str) -> bytes:
    text = pathlib.Path(path).read_bytes()
    for old, new in _IMPORTS.items():
      text = re.sub(old, new, text, flags=re.MULTILINE)
    return text


class _Finder(importlib.abc.MetaPathFinder):
  """Finds the modules of this package among the files of tf_slim."""

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    """Raises ModuleNotFoundError without tf_slim; returns None for other modules."""
    package, _, name = fullname.rpartition(".")
    if package != __name__:
      return None
    found = importlib.util.find_spec("tf_slim")  # does not import tf_slim
    if found is None or found.origin is None:
      raise ModuleNotFoundError(
        "it is a file of the package tf_slim, which is missing: pip install --no-deps "
        "tf_slim==1.1.0.",
        name="tf_slim",
      )
    file = pathlib.Path(found.origin).parent / "nets" / f"{name}.py"
    return importlib.util.spec_from_loader(fullname, _Loader(file)) if file.exists() else None


sys.meta_path.insert(0, _Finder())
