"""Reads Keras's weight files.

Layout of a .weights.h5 file of Keras 3 (a .keras file is a zip archive that contains one). Source:
`keras/src/saving/saving_lib.py`.

    layers/dense/vars/0            the first value of a layer, its kernel; trainable values first,
                                   in the order of creation
    layers/dense/vars/1            the second value, its bias
    layers/dense/vars              its attribute "name" is the layer's name, such as "head"; the
                                   folder is named after the layer's class, with a number
    layers/lstm/cell/vars/0        layers can contain layers
    optimizer/vars/0               ignored here

A value's name here consists of the names of its layers, the outermost first, and the value's
number: `head/0`, `lstm/lstm_cell/2`. The .h5 files of Keras 2 contain variable names, such as
`conv1/kernel`. Octet keeps these.
"""

import collections
import io
import itertools
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence

import h5py
import ml_dtypes
import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.io import storage

_IN_ARCHIVE = "model.weights.h5"
_NUMBERED = re.compile(r"(.+?)(?:_(\d+))?")


def read(path: str) -> dict[str, np.ndarray]:
  """Reads a weight file; returns name → value.

  Args:
    path: a `.weights.h5`, `.keras` or `.h5` file.

  Raises:
    CheckpointNotFoundError: there is no such file.
    CheckpointDamagedError: it is not a Keras file, or it is incomplete.
  """
  try:
    data = storage.read(path, "rb")
  except (tf.errors.NotFoundError, tf.errors.FailedPreconditionError) as error:
    raise errors.CheckpointNotFoundError(f"There is no file {path}.") from error
  try:
    if path.endswith(".keras"):
      data = zipfile.ZipFile(io.BytesIO(data)).read(_IN_ARCHIVE)
    with h5py.File(io.BytesIO(data), "r") as file:
      root = file.get("model_weights", file)
      values = _read_keras_2(root) if "layer_names" in root.attrs else _read_keras_3(file)
  except (OSError, KeyError, RuntimeError, ValueError, zipfile.BadZipFile) as error:
    raise errors.CheckpointDamagedError(
      f"Cannot read {path} as a weights file of Keras: {error}"
    ) from error
  if not values:
    raise errors.CheckpointDamagedError(
      f"Cannot read {path} as a weights file of Keras: it has no values."
    )
  return values


def _read_keras_2(root):
  values = {}
  for layer in root.attrs["layer_names"]:
    group = root[layer]
    for name in group.attrs["weight_names"]:
      values[(name.decode() if isinstance(name, bytes) else name).removesuffix(":0")] = _value(
        group[name], root.file
      )
  return values


def _read_keras_3(file):
  names = {}  # Folder of a layer → the layer's name.

  def visit(place, item):
    if isinstance(item, h5py.Group) and (place == "vars" or place.endswith("/vars")):
      layer = place.removesuffix("vars").strip("/")
      names[layer] = item.attrs.get("name", layer.rpartition("/")[2])

  file.visititems(visit)
  layers = [layer for layer in names if layer.split("/")[0] not in ("", "optimizer")]
  # The path of a layer has the names of the layers around it, the outermost first.
  chains = {
    layer: "/".join(
      names[outer]
      for outer in itertools.accumulate(layer.split("/"), "{}/{}".format)
      if outer in names
    )
    for layer in layers
  }
  # Two layers may have the same chain of names. They keep their folders' names, since folders have
  # unique names.
  uses = collections.Counter(chains.values())
  values = {}
  for layer, chain in chains.items():
    group = file[f"{layer}/vars"]
    for key in sorted(group, key=lambda key: (len(key), key)):
      values[f"{chain if uses[chain] == 1 else layer}/{key}"] = _value(group[key], file)
  root = file.get("vars")
  values.update({f"{names['']}/{key}": _value(root[key], file) for key in root or ()})
  return values


def _value(dataset, file):
  # HDF5 lets a file take values from other files of the machine that reads it.
  if dataset.file != file or dataset.external or dataset.is_virtual:
    raise ValueError(f"{dataset.name} is not in the file itself, but refers to another file")
  return np.array(dataset, ml_dtypes.bfloat16 if dataset.attrs.get("dtype") == "bfloat16" else None)


def find(
  names: Iterable[str], wanted: Sequence[str], layers: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, str], dict[str, str]]:
  """Finds the value of a file that belongs to each variable, by the names of the layers.

  Keras numbers layers without a name ("dense", "dense_1") per process, not per model. So the layers
  of a file may start at dense_7. If that finds more variables, the function counts the numbers of
  each kind of layer from 0.

  Args:
    names: the names in the file.
    wanted: names of variables, such as `dense/kernel`.
    layers: wanted name → (index, count): its place among the variables of its layer.

  Returns:
    (found, notes): wanted name → name in the file; and wanted name → the reason for a missing name,
    if there is a particular one.
  """
  names = set(names)
  sizes = collections.Counter(name.rpartition("/")[0] for name in names)
  as_named = _match({layer: layer for layer in sizes}, sizes, names, wanted, layers)
  counted = _match(counted_from_0(sizes), sizes, names, wanted, layers)
  (found, notes), (other, _) = (
    (as_named, counted) if len(as_named[0]) >= len(counted[0]) else (counted, as_named)
  )
  if len(found) == len(other):
    # Both ways of counting find equally many: where they disagree, either may be wrong.
    for name in [name for name in found if other.get(name) != found[name]]:
      notes[name] = f"it could be {found[name]} or {other.get(name)}, by the count of the layers"
    found = {name: value for name, value in found.items() if name not in notes}
  return found, notes


def _match(layer_names, sizes, names, wanted, layers):
  """Does `find` with other names for the layers: layer_names maps a layer in the file to one."""
  of_name = {name: layer for layer, name in layer_names.items()}
  parents = {name: name.rpartition("/")[0] for name in wanted}
  candidates = {
    parent: [parent] if parent in of_name else [name for name in of_name if _same_end(name, parent)]
    for parent in set(parents.values())
  }
  claims = collections.Counter(claimed for names in candidates.values() for claimed in names)
  found, notes = {}, {}
  for name in wanted:
    index, count = layers[name]
    layers_of_it = candidates[parents[name]]
    if name in names:
      found[name] = name
    elif len(layers_of_it) > 1 or any(claims[layer] > 1 for layer in layers_of_it):
      notes[name] = (
        f"the layer {parents[name]} could be "
        + " or ".join(sorted(layers_of_it))
        + ("" if len(layers_of_it) > 1 else ", and so could another")
      )
    elif layers_of_it:
      layer = of_name[layers_of_it[0]]
      if sizes[layer] == count and f"{layer}/{index}" in names:
        found[name] = f"{layer}/{index}"
      else:
        notes[name] = f"the layer {layer} has {sizes[layer]} values, {parents[name]} has {count}"
  return found, notes


def _same_end(one, other):
  return (bool(other) and f"/{one}".endswith(f"/{other}")) or f"/{other}".endswith(f"/{one}")


def counted_from_0(layers: Iterable[str]) -> dict[str, str]:
  """Renumbers each kind of layer from 0: dense_7 and dense_9 become dense and dense_1.

  Args:
    layers: the names of layers, after the names of the layers around them: `block_3/dense_7`.

  Returns:
    Name → name with other numbers.
  """
  layers = list(layers)
  numbers = {base: sorted(found) for base, found in numbers_of(layers).items()}

  def counted(part):
    base, number = _kind_and_number(part)
    index = numbers[base].index(number)
    return f"{base}_{index}" if index else base

  return {layer: "/".join(map(counted, layer.split("/"))) if layer else "" for layer in layers}


def numbers_of(layers: Iterable[str]) -> dict[str, set[int]]:
  """Returns kind of layer → its numbers: {"dense": {7, 9}} of dense_7 and dense_9."""
  numbers: dict[str, set[int]] = collections.defaultdict(set)
  for part in itertools.chain.from_iterable(layer.split("/") for layer in layers if layer):
    base, number = _kind_and_number(part)
    numbers[base].add(number)
  return numbers


def _kind_and_number(part):
  base, number = _NUMBERED.fullmatch(part).groups()
  return base, int(number or 0)
