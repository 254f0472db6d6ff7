"""Describes an export in <SavedModel>/assets.extra/octet.json.

Example:
    {
      "format": 1,
      "model": "digits_mlp.model_fn",
      "checkpoint": "out/digits/model.ckpt-2000",
      "global_step": 2000,
      "exported": "2026-11-22T13:40:00+00:00",
      "signatures": {"serving_default": {"inputs": {"image": {"dtype": "float32",
                                                    "shape": [null, 8, 8, 1]}}, "outputs": ...}},
      "decodes": ["image"],           features that from_bytes and from_examples take encoded
      "raw": {"mean age": {"input": "mean_age", "optional": true}},   columns and texts that
                                      from_raw takes, and their names in the signature
      "class_names": ["0", "1", ...],
      "metrics": {"accuracy": 0.98},  from the evaluation of this checkpoint, if there was one
      "report": {"examples": 360, "metrics": {"accuracy": {"value": 0.98, "low": ..., "high": ...}},
                 ...},                from its evaluation report; null without one
      "training": {"steps": 2000, "seconds": 0.62, "commit": "9be2...", ...}   {} for weights that
                                      are of no run of this folder
      "sizes": {"parameters": 17226, "trainable": 17226, "variables": 6, "bytes": 68904,
                "files": 161735},     of the model; "files" is the size of the SavedModel in bytes
      "data": ["run.train_input_fn = @train/digits.input_fn", ...],   lines of gin_config
      "card": {"Limits": "..."},      the author's words, see ExportOptions.card
      "gin_config": "...",
      "versions": {"octet": "0.1.0", ...},
      "runtimes": {"onnx": {"file": "model.onnx", ...}},   see `outputs.runtimes`
      "verified": {"serving_default": {"class": 0.0, "probabilities": 1.2e-08}}  largest differences
    }
"""

import datetime
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from trainer import errors
from trainer.io import json_form, storage

NAME = "octet.json"

# A folder without this file is no SavedModel; `publish` moves it last.
SAVED_MODEL = "saved_model.pb"

FORMAT = 1
_FORM = {"format": int, ...: object}
_INIT = "__saved_model_init_op"


def path_of(saved_model: str) -> str:
  """Returns the path of a SavedModel's description."""
  return os.path.join(saved_model, "assets.extra", NAME)


def is_whole(folder: str) -> bool:
  """Whether a folder has a completely published SavedModel."""
  return storage.exists(os.path.join(folder, SAVED_MODEL))


def signatures_of(saved_model: str) -> dict[str, dict]:
  """Reads the signatures of a SavedModel, without loading the model.

  Returns:
    Name → {"inputs": {name: {"dtype": str, "shape": list}}, "outputs": ...}. An unknown size is
    None, and so is the shape of a tensor of unknown rank.

  Raises:
    InputError: the folder is no SavedModel.
  """
  path = os.path.join(saved_model, SAVED_MODEL)
  try:
    graph = saved_model_pb2.SavedModel.FromString(storage.read(path, "rb")).meta_graphs[0]
  except errors.StorageError:
    raise
  except Exception as error:  # Any error of the file system or the parser.
    raise errors.InputError(
      f"{saved_model} is no SavedModel: cannot read {path} ({error})."
    ) from error
  return {
    name: {"inputs": _tensors(signature.inputs), "outputs": _tensors(signature.outputs)}
    for name, signature in sorted(graph.signature_def.items())
    if name != _INIT
  }


def _tensors(infos):
  return {
    name: {"dtype": tf.as_dtype(info.dtype).name, "shape": _shape(info.tensor_shape)}
    for name, info in sorted(infos.items())
  }


def _shape(shape):
  if shape.unknown_rank:
    return None
  return [None if dim.size < 0 else dim.size for dim in shape.dim]


def describe(
  signatures: Mapping[str, dict],
  about: Mapping[str, Any],
  class_names: Sequence[str] | None,
  decodes: Iterable[str],
  raw: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
  """Returns the content of octet.json, without "runtimes" and "verified".

  Args:
    signatures: see `signatures_of`.
    about: "model", "checkpoint", "global_step", "metrics", "report", "training", "sizes" and
      "card", as far as known.
    class_names: the names of the classes, or None.
    decodes: names of the features that from_bytes decodes.
    raw: columns and texts that from_raw takes → {"input": name in the signature, "optional":
      whether the value may be null, "gaps": shares of missing and unknown values of the evaluation
      set, "known": the texts of the training set}, the last two if the input_fn tells them.
  """
  import keras

  import trainer
  from trainer import config

  return {
    "format": FORMAT,
    **about,
    "exported": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    "signatures": dict(signatures),
    "decodes": sorted(decodes),
    "raw": dict(raw or {}),
    "class_names": None if class_names is None else list(class_names),
    "data": config.input_bindings(),
    "gin_config": config.operative_text(),
    "versions": {
      "octet": trainer.__version__,
      "tensorflow": tf.__version__,
      "keras": keras.__version__,
      "numpy": np.__version__,
      "python": platform.python_version(),
    },
  }


def write(saved_model: str, description: Mapping[str, Any]) -> None:
  """Writes octet.json into a SavedModel."""
  path = path_of(saved_model)
  storage.makedirs(os.path.dirname(path))
  storage.write(path, json_form.dump(description))


def read(saved_model: str) -> dict[str, Any]:
  """Reads the description of a SavedModel.

  Returns:
    The content of octet.json. Without that file, the description has only the signatures.

  Raises:
    FileDamagedError: the file is damaged.
    InputError: it has a later format, or the folder is no SavedModel.
  """
  path = path_of(saved_model)
  found = json_form.read(path, _FORM, "export again")
  if found is None:
    return {
      "format": FORMAT,
      "signatures": signatures_of(saved_model),
      "decodes": [],
      "raw": {},
      "class_names": None,
      "metrics": {},
    }
  if found["format"] > FORMAT:
    raise errors.InputError(
      f"{path} has the format {found['format']}, and this version of Octet reads {FORMAT}: use "
      "the version that wrote it, or a later one."
    )
  return found
