"""The package tf_slim, over the layers of trainer.compat: tf.contrib.layers, framework and slim.

    from trainer.compat.contrib.tf_slim.layers import layers

Programs cannot import tf_slim itself beside Keras 3. The modules of this package are tf_slim's
files, with changed imports. Each `__init__` of tf_slim is left out: the tables of trainer.compat.v1
list the names.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import re
import sys
import types
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer.optimization.optimizers import CrossShardOptimizer
from trainer.tracing import graph_collections

_V1 = "trainer.compat.v1"

# The classes that optimize_loss takes: in TensorFlow, CrossShardOptimizer derives from Optimizer.
optimizer = types.SimpleNamespace(Optimizer=(tf.compat.v1.train.Optimizer, CrossShardOptimizer))

# An import in tf_slim → the import instead.
_IMPORTS = {
  r"import tensorflow\.compat\.v1 as tf": f"import {_V1} as tf",
  # Threads respect Octet's arg_scope; tf_slim keeps the open scopes in a list of the process.
  r"import tf_slim\.ops\.arg_scope as": "from trainer.compat.layers import arg_scopes as",
  r"from tf_slim\.ops\.arg_scope import": "from trainer.compat.layers.arg_scopes import",
  r"from tf_slim import": f"from {_V1}.contrib.slim import",
  r"from tf_slim\.": f"from {__name__}.",
  # Modules of TensorFlow that lost names, or whose layers raise errors beside Keras 3.
  r"from tensorflow\.python\.framework import ops\b": f"from {_V1}.python import ops",
  r"from tensorflow\.python\.layers import (?:convolutional|core|pooling)\b": (
    "from trainer.compat.layers import legacy"
  ),
  r"from tensorflow\.python\.layers import": "from trainer.compat.layers import",
  r"from tensorflow\.python\.ops import control_flow_ops": (
    f"from {_V1}.python import control_flow_ops"
  ),
  # Octet writes the scalars of a step.
  r"from tensorflow\.python\.summary import summary": f"from {_V1} import summary",
  r"from tensorflow\.python\.training import optimizer as optimizer_": (
    f"from {__name__} import optimizer as optimizer_"
  ),
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
    if self._path.is_dir():
      return b""
    text = pathlib.Path(path).read_text()
    for old, new in _IMPORTS.items():
      text = re.sub(f"^{old}", new, text, flags=re.MULTILINE)
    # The older names of TensorFlow's layers.
    text = re.sub(
      r"\bconvolutional_layers\.(Separable)?Convolution", r"convolutional_layers.\1Conv", text
    )
    return text.encode()


class _Finder(importlib.abc.MetaPathFinder):
  """Finds the modules of this package among the files of tf_slim."""

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    """Raises ModuleNotFoundError without tf_slim; returns None for other modules."""
    if not fullname.startswith(f"{__name__}."):
      return None
    found = importlib.util.find_spec("tf_slim")  # does not import tf_slim
    if found is None or found.origin is None:
      raise ModuleNotFoundError(
        "it is a file of the package tf_slim, which is missing: pip install tf_slim==1.1.0.",
        name="tf_slim",
      )
    inner = fullname.removeprefix(f"{__name__}.").split(".")
    place = pathlib.Path(found.origin).parent.joinpath(*inner)
    if place.is_dir():
      return importlib.util.spec_from_loader(fullname, _Loader(place), is_package=True)
    file = place.with_suffix(".py")
    return importlib.util.spec_from_loader(fullname, _Loader(file)) if file.exists() else None


sys.meta_path.insert(0, _Finder())

_utils: Any = importlib.import_module(f"{__name__}.layers.utils")
_collect = _utils.collect_named_outputs


def _collect_named_outputs(collections: Any, alias: str, outputs: tf.Tensor) -> tf.Tensor:
  """As tf_slim's function. Names of 2.15 have no scope of a loop or a replica."""
  return _collect(collections, graph_collections.OUTER_SCOPES.sub("", alias), outputs)


_utils.collect_named_outputs = _collect_named_outputs
