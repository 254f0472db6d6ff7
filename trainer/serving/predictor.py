"""A model that loads once and predicts many times, also for several threads.

Example:
    predictor = Predictor("out/digits/export")                  # the newest export there
    predictor.predict_batch({"image": images})["probabilities"]
    predictor.predict_batch({"image": predictor.decode("image", [file_content])})
    predictor.reload_if_newer()                                 # while others predict

    Predictor.of_checkpoint(estimator)  # exports the newest checkpoint to a temporary folder
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
  """Finds the SavedModel at a path, or the newest one below it with a number as its name.

  Raises:
    InputError: there is none.
  """
  if description.is_whole(path):
    return path
  is_folder = storage.isdir(path)
  # Folders with other names are not complete yet, or belong to exporters.
  names = numbered_exports.names(path) if is_folder else []
  newest_first = (os.path.join(path, name) for name in reversed(names))
  newest = next(filter(description.is_whole, newest_first), None)
  if newest is None:
    listed = storage.listdir(path) if is_folder else []
    below = sorted(name.rstrip("/") for name in listed if not name.startswith("."))
    raise errors.InputError(
      f"There is no export in {path}: expected a SavedModel, or a folder of SavedModels with "
      f"numbers as names; it has {', '.join(below[:5]) or 'nothing'}."
    )
  return newest


class Predictor:
  """Predicts with the newest export of a folder, or with one export. Threads may share it.

  Args:
    source: a SavedModel's folder, or a folder of exports with numbers for names.
    engine: see `engines`.
    batch_sizes: numbers of examples in a call; each gets its fastest engine.
    precision: "float32"; "bfloat16" with the engine "openvino".
    threads: of one call; None for all.

  Raises:
    InputError: there is no export.
    SettingError: the engine is missing, or cannot run the export.
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
    """Makes a Predictor of a checkpoint of an Estimator.

    Args:
      estimator: an Estimator that has called an input_fn, and so knows the features.
      checkpoint_path: the checkpoint; None for the newest.
      **settings: see Predictor.
    """
    with tempfile.TemporaryDirectory() as folder:
      path = estimator.export_saved_model(folder, checkpoint_path=checkpoint_path)
      return cls(path, **settings)

  @property
  def loaded(self) -> loaded_model.LoadedModel:
    """The loaded model. Keep it for calls that belong together: a newer export may replace it."""
    return self._loaded

  def predict_batch(
    self, features: Mapping[str, Any], signature: str = loaded_model.DEFAULT
  ) -> dict[str, np.ndarray]:
    """Predicts for a batch.

    Args:
      features: name → array or list; the first axis is the batch.
      signature: serving_default, or another one of the model (EstimatorSpec.export_outputs).

    Returns:
      Output name → array; the first axis is the batch.

    Raises:
      InputError: the features do not fit the model, or there is no such signature.
    """
    loaded = self._loaded  # One read: a reload in between would mix two exports.
    checked = loaded.check(features, signature)
    return loaded.engines[signature].predict_batch(checked)

  def decode(self, feature: str, encoded: Sequence[bytes]) -> np.ndarray:
    """See `LoadedModel.decode`."""
    return self._loaded.decode(feature, encoded)

  def reload_if_newer(self) -> bool:
    """Loads the newest export unless it has it; returns whether it did.

    Running calls end with the former model. Later calls get the new one.

    Raises:
      InputError, SettingError, ExportError: the export is unusable. The former one stays.
    """
    # Two threads at once would load the same export twice.
    with self._loading:
      path = newest_export(self._source)
      if path == self._loaded.path:
        return False
      self._loaded = loading.load(path, **self._settings)
      return True
