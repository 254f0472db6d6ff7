"""Reads named values from checkpoints of any origin, SavedModels and Keras files.

    def kernel(source):
      source.shapes                                          # {"dense/kernel": ((64, 128), ...)}
      return source.read(["dense/kernel"])["dense/kernel"]   # a numpy array

    weight_sources.read("out/digits", kernel)                # or model.ckpt-1000, mine.keras,
                                                             # export/1718000000, mine.weights.h5

The names of the values in each kind of source:

    name-based checkpoint           the names in the file, as tf.compat.v1.train.Saver, TPUEstimator
                                    and Octet write them
    object-based checkpoint,        the names that the variables had, if these are unique; otherwise
    SavedModel                      the path in the object graph, such as `model/layer-1/kernel`
    .weights.h5, .keras             the layers' names and the number of the value in its layer:
                                    `dense/0`, `dense/1`; see `trainer.checkpoints.keras_weights`
    .h5 of Keras 2                  the names in the file, `dense/kernel`
    .safetensors                    the names in the file, see `checkpoints.safetensors_file`
"""

import collections
import dataclasses
import os
import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from tensorflow.core.protobuf import trackable_object_graph_pb2

from trainer import errors
from trainer.checkpoints import directory, keras_weights, leases, reader, safetensors_file
from trainer.io import storage

_T = TypeVar("_T")

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"
_CHECKPOINT_FILE = re.compile(r"(.+)\.(?:index|data-\d{5}-of-\d{5}|meta)")


@dataclasses.dataclass(frozen=True)
class Source:
  """An open source of named values.

  Attributes:
    path: the file, or the checkpoint's prefix.
    shapes: name → (shape, name of the dtype).
    read: `read(names)` returns name → numpy array.
    find: `find(wanted, layers)` finds the source's name for each wanted one, see
      `keras_weights.find`.
    names_of_keys: key in the file → name, of an object-based checkpoint; programs for TF1 know the
      keys: "model/kernel/.ATTRIBUTES/VARIABLE_VALUE".
  """

  path: str
  shapes: dict[str, tuple[tuple[int, ...], str]]
  read: Callable
  find: Callable
  names_of_keys: dict[str, str] = dataclasses.field(default_factory=dict)


def read(path: str | os.PathLike, load: Callable[[Source], _T]) -> _T:
  """Opens a source and reads from it. A lease holds a checkpoint meanwhile, see `leases`.

  From checkpoints and SavedModels it reads names and shapes, and the values that `load` asks for;
  other values only to compare two of the same name in an object-based checkpoint.

  Args:
    path: a checkpoint; a folder with checkpoints, for its newest; a SavedModel; a Keras
      `.weights.h5`, `.keras` or `.h5` file; or a `.safetensors` file, or the
      `.safetensors.index.json` of several.
    load: function of the Source. It runs again after a training has removed the checkpoint.

  Returns:
    The result of `load`.

  Raises:
    CheckpointNotFoundError: there is nothing to read.
    CheckpointDamagedError: the source is unreadable.
  """
  path = os.fspath(path)
  if path.endswith((".h5", ".hdf5", ".keras")):
    return load(_keras(path))
  if path.endswith((safetensors_file.ENDING, safetensors_file.INDEX_ENDING)):
    with safetensors_file.opened(path) as file:
      return load(Source(path, file.shapes, file.read, _by_name(file.shapes)))
  if path.endswith(".weights.json"):
    raise errors.CheckpointError(
      f"{path} is a Keras file in several parts, and Octet reads files of one part: save it as one "
      ".weights.h5."
    )
  return leases.read(lambda: _resolve(path), lambda found: load(_checkpoint(found)))


def _resolve(path):
  """Returns the prefix of the checkpoint at a path."""
  if storage.exists(os.path.join(path, "saved_model.pb")):
    return os.path.join(path, "variables", "variables")
  file = _CHECKPOINT_FILE.fullmatch(path)
  if file and storage.exists(file[1] + ".index"):
    return file[1]
  if storage.isdir(path) and not directory.CheckpointDirectory(path).steps():
    newest = reader.latest_named(path)  # Of a program with other names of checkpoints.
    if newest:
      return newest
  try:
    return directory.resolve(path)
  except errors.CheckpointNotFoundError:
    raise errors.CheckpointNotFoundError(
      f"There are no weights at {path}: expected a checkpoint (model.ckpt-1000), a folder with "
      "checkpoints, a SavedModel, a Keras .weights.h5 or .keras file, or a .safetensors file."
    ) from None


def _checkpoint(path):
  stored = {
    key: (shape, dtype.base_dtype.name) for key, (shape, dtype) in reader.shapes(path).items()
  }
  keys, names_of_keys = {key: key for key in stored}, {}
  if _OBJECT_GRAPH in stored:
    keys, names_of_keys = _names_of_objects(path, stored)
  for name in reader.POSITION:
    keys.pop(name, None)

  def read(names):
    values = reader.read(path, [keys[name] for name in names])
    return {name: np.asarray(values[keys[name]]) for name in names}

  shapes = {name: stored[key] for name, key in keys.items()}
  return Source(path, shapes, read, _by_name(shapes), names_of_keys)


def _by_name(names):
  """Returns a Source's `find` if the names are enough."""

  def find(wanted, layers):
    del layers
    return {name: name for name in wanted if name in names}, {}

  return find


def _names_of_objects(path, stored):
  """Returns (name → key, key → name) of an object-based checkpoint; equal values have one name."""
  graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
    reader.read(path, [_OBJECT_GRAPH])[_OBJECT_GRAPH]
  )
  keys = collections.defaultdict(list)
  for node in graph.nodes:
    for attribute in node.attributes:
      if (
        attribute.checkpoint_key in stored
        and attribute.checkpoint_key not in keys[attribute.full_name]
      ):
        keys[attribute.full_name].append(attribute.checkpoint_key)
  names, names_of_keys = {}, {}
  for name, candidates in keys.items():
    if name and candidates and _are_one(path, candidates, stored):
      names[name] = candidates[0]
      names_of_keys |= dict.fromkeys(candidates, name)
    else:
      of_paths = {key.removesuffix(_ATTRIBUTE): key for key in candidates}
      names |= of_paths
      names_of_keys |= {key: path for path, key in of_paths.items()}
  return names, names_of_keys


def _are_one(path, keys, stored):
  """Whether the values of several keys are equal. A SavedModel of Keras holds each value twice."""
  if len(keys) == 1:
    return True
  if len({stored[key] for key in keys}) > 1:
    return False
  first, *others = reader.read(path, keys).values()
  return all(np.array_equal(first, other) for other in others)


def _keras(path):
  values = keras_weights.read(path)
  shapes = {name: (value.shape, value.dtype.name) for name, value in values.items()}
  return Source(
    path,
    shapes,
    lambda names: {name: values[name] for name in names},
    lambda wanted, layers: keras_weights.find(values, wanted, layers),
  )
