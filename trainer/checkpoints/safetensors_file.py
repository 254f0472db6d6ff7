"""Reads and writes safetensors files, an exchange format of named arrays.

    with safetensors_file.opened("bert/model.safetensors") as file:
      file.shapes                                     # {"pooler.weight": ((768, 768), "float32")}
      file.read(["pooler.weight"])["pooler.weight"]   # a numpy array

    safetensors_file.write("digits.safetensors", {"dense/kernel": kernel})

A model in several files has an index, `model.safetensors.index.json`; it reads like one file:

    {"weight_map": {"pooler.weight": "model-00001-of-00002.safetensors", ...}}

The package safetensors, of the extra [safetensors], knows the format:
https://github.com/huggingface/safetensors#format.
"""

import contextlib
import dataclasses
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.cli import installation
from trainer.io import files, json_form, storage

ENDING = ".safetensors"
INDEX_ENDING = ".safetensors.index.json"

_INDEX_FORM = {"weight_map": dict[str, str], ...: object}

# The format's names of dtypes are these with the number of bits: F32, BF16; and BOOL.
_KINDS = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint", "C": "complex"}
_DTYPE = re.compile(r"([A-Z]+)(\d+)")


@dataclasses.dataclass(frozen=True)
class File:
  """An open file, or the open files of an index.

  Attributes:
    shapes: name → (shape, name of the dtype).
    read: `read(names)` returns name → numpy array. It reads only these values.
  """

  shapes: dict[str, tuple[tuple[int, ...], str]]
  read: Callable[[Sequence[str]], dict[str, np.ndarray]]


@contextlib.contextmanager
def opened(path: str) -> Iterator[File]:
  """Opens a file, or the index of several.

  Args:
    path: ends in ENDING or in INDEX_ENDING.

  Raises:
    CheckpointNotFoundError: there is no such file.
    CheckpointDamagedError: a file is damaged.
    SettingError: the package safetensors is missing.
  """
  with contextlib.ExitStack() as stack:
    parts = [stack.enter_context(_part(each)) for each in _paths(path)]
    shapes: dict[str, tuple[tuple[int, ...], str]] = {}
    part_of: dict[str, Any] = {}
    for part in parts:
      for name in part.keys():  # noqa: SIM118  (safe_open is no dict)
        shapes[name] = _shape_of(path, name, part.get_slice(name))
        part_of[name] = part
    yield File(
      shapes, lambda names: {name: np.asarray(part_of[name].get_tensor(name)) for name in names}
    )


def _paths(path):
  if not path.endswith(INDEX_ENDING):
    return [path]
  index = json_form.read(path, _INDEX_FORM, "fetch it again")
  if index is None:
    raise errors.CheckpointNotFoundError(f"There is no file {path}.")
  names = sorted(set(index["weight_map"].values()))
  for name in names:
    if os.path.basename(name) != name:
      raise errors.CheckpointDamagedError(
        f"{path} names the file {name!r}: expected names of files beside it."
      )
  return [os.path.join(os.path.dirname(path), name) for name in names]


@contextlib.contextmanager
def _part(path):
  """Opens one file; first copies a URL's file here, since the package reads only local files."""
  package = _package()
  with contextlib.ExitStack() as stack:
    local = path
    if storage.is_remote(path):
      local = stack.enter_context(tempfile.NamedTemporaryFile(suffix=ENDING)).name
    try:
      if local != path:
        storage.copy(path, local, overwrite=True)
      # The package maps the file into memory and reads a value on demand.
      part = stack.enter_context(package.safe_open(local, framework="np"))
    except (FileNotFoundError, tf.errors.NotFoundError) as error:
      raise errors.CheckpointNotFoundError(f"There is no file {path}.") from error
    except (OSError, package.SafetensorError) as error:
      raise errors.CheckpointDamagedError(
        f"Cannot read {path} as a safetensors file: {error}"
      ) from error
    yield part


def _shape_of(path, name, part):
  kind = part.get_dtype()
  match = _DTYPE.fullmatch(kind)
  if kind != "BOOL" and (match is None or match[1] not in _KINDS):
    raise errors.CheckpointError(
      f"{path}: {name} has the dtype {kind}; expected BOOL, or one of {', '.join(_KINDS)} with the "
      "number of bits, such as F32."
    )
  return tuple(part.get_shape()), f"{_KINDS[match[1]]}{match[2]}" if match else "bool"


def write(path: str, values: Mapping[str, np.ndarray]) -> None:
  """Writes a file.

  Args:
    path: the file, ending in ENDING.
    values: name → numpy array.

  Raises:
    OutputError: it cannot write the file.
    SettingError: a value is text, and the format has none; or the package safetensors is missing.
  """
  package = _package()
  for name, value in values.items():
    if value.dtype.kind in "OSU":
      raise errors.SettingError(
        f"{name} is text, and a safetensors file has numbers alone: write a .weights.h5."
      )
  # The package copies the memory of an array in its order: a transposed view would arrive
  # scrambled.
  arrays = {name: np.asarray(value, order="C") for name, value in values.items()}
  # transformers reads files with this note alone. Two notes would have no fixed order in the file.
  data = package.numpy.save(arrays, metadata={"format": "tf"})
  files.write(path, data, "--weights_file")


def _package():
  try:
    import safetensors
    import safetensors.numpy
  except ImportError:
    raise errors.SettingError(
      f"safetensors files need the package safetensors: {installation.command('safetensors')}."
    ) from None
  return safetensors
