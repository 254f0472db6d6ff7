"""A model that is loaded once and predicts for whoever asks.

Example:
    predictor = Predictor("out/digits/export")                  # the newest export there
    predictor.predict_batch({"image": images})["probabilities"]
    predictor.predict_batch({"image": predictor.decode("image", [file_content])})
    predictor.reload_if_newer()                                 # while others predict

    Predictor.of_checkpoint(estimator)  # of a checkpoint, by way of an export
"""

import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer import errors
from trainer.io import storage
from trainer.outputs import description, engines, numbered_exports
from trainer.serving import loaded_model, loading

if TYPE_CHECKING:
  from trainer.hooks.estimator_protocol import Estimator


def newest_export(path: str) -> str:
  """The SavedModel at a path, or the newest of those whose names are numbers below it.

  Raises:
    InputError: there is none.
  """
  if description.is_whole(path):
    return path
  is_folder = storage.isdir(path)
  # Other folders are being written, or belong to exporters.
  names = numbered_exports.names(path) if is_folder else []
  newest_first = (os.path.join(path, name) for name in reversed(names))
  newest = next(filter(description.is_whole, newest_first), None)
  if newest is None:
    listed = storage.listdir(path) if is_folder else []
    below = sorted(name.rstrip("/") for name in listed if not name.startswith("."))
    raise errors.InputError(
      f"There is no export in {path}: expected a SavedModel, or a folder of SavedModels that are "
      f"named by numbers; it has {', '.join(below[:5]) or 'nothing'}."
    )
  return newest


class Predictor:
  """Predicts with the newest export of a folder, or with one export. Threads may share it.

  Args:
    source: a SavedModel's folder, or one of exports that are named by numbers.
    engine: see `engines`.
    batch_sizes: examples of a call, for which the engine is chosen.
    precision: "float32"; "bfloat16" with the engine "openvino".
    threads: of one call; None for all.

  Raises:
    InputError: there is no export.
    SettingError: the engine cannot be had.
  """

  def __init__(
    self,
    source: str,
    engine: str = "auto",
    *,
    batch_sizes: Sequence[int] = (1, 128),
    precision: str = "float32",
    threads: int | None = None,
  ) -> None:
    engines.check_name(engine, precision)
    self._source = os.fspath(source)
    self._settings = dict(
      name=engine, batch_sizes=tuple(batch_sizes), precision=precision, threads=threads
    )
    self._loading = threading.Lock()
    self._loaded = loading.load(newest_export(self._source), **self._settings)

  @classmethod
  def of_checkpoint(
    cls, estimator: "Estimator", checkpoint_path: str | None = None, **settings: Any
  ) -> "Predictor":
    """A Predictor of a checkpoint of an Estimator; by default of the newest.

    Args:
      estimator: an Estimator that has seen an input_fn, which says what the features are.
      checkpoint_path: the checkpoint.
      **settings: see Predictor.
    """
    with tempfile.TemporaryDirectory() as folder:
      path = estimator.export_saved_model(folder, checkpoint_path=checkpoint_path)
      return cls(path, **settings)

  @property
  def loaded(self) -> loaded_model.LoadedModel:
    """The model as it is now. Who makes several calls that belong together holds on to it."""
    return self._loaded

  def predict_batch(
    self, features: Mapping[str, Any], signature: str = loaded_model.DEFAULT
  ) -> dict[str, np.ndarray]:
    """The outputs by name, of features by name: arrays or lists whose first axis is the batch.

    Args:
      features: the batch.
      signature: serving_default, or another of the model's own (EstimatorSpec.export_outputs).

    Raises:
      InputError: the features are not what the model takes, or there is no such signature.
    """
    loaded = self._loaded
    checked = loaded.check(features, signature)
    return loaded.engines[signature].predict_batch(checked)

  def decode(self, feature: str, encoded: Sequence[bytes]) -> np.ndarray:
    """See `LoadedModel.decode`."""
    return self._loaded.decode(feature, encoded)

  def reload_if_newer(self) -> bool:
    """Loads the newest export, if it is not the one that is loaded; says whether it did.

    Calls that are under way end with the former model, later ones get the new one.

    Raises:
      InputError, SettingError, ExportError: it cannot be used; the former stays.
    """
    with self._loading:
      path = newest_export(self._source)
      if path == self._loaded.path:
        return False
      self._loaded = loading.load(path, **self._settings)
      return True
