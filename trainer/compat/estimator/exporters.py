"""Exporter, LatestExporter, FinalExporter and BestExporter, with the arguments of 2.15."""

import os
from collections.abc import Callable
from typing import Any

from trainer.io import json_form
from trainer.outputs import exported_records, numbered_exports
from trainer.reporting import metric_values


class Exporter:
  """Base class of a program's own exporters."""

  @property
  def name(self) -> str:
    """Returns the export's folder below <model_dir>/export."""
    raise NotImplementedError

  def export(
    self,
    estimator: Any,
    export_path: str,
    checkpoint_path: str,
    eval_result: dict[str, Any],
    is_the_final_export: bool,
  ) -> Any:
    """Exports, and returns the path, or None."""
    raise NotImplementedError


class _SavedModelExporter(Exporter):
  """Common part of the exporters below."""

  def __init__(
    self,
    name: str,
    serving_input_receiver_fn: Callable,
    assets_extra: Any = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
  ):
    if exports_to_keep is not None and exports_to_keep <= 0:
      raise ValueError(f"{name}: exports_to_keep must be greater than 0; got {exports_to_keep}.")
    self._name = name
    self._receiver_fn = serving_input_receiver_fn
    self._assets_extra = assets_extra
    self._as_text = as_text
    self._keep = exports_to_keep

  @property
  def name(self) -> str:
    return self._name

  def _save(self, estimator: Any, export_path: str, checkpoint_path: str) -> Any:
    exported = estimator.export_saved_model(
      export_path, self._receiver_fn, self._assets_extra, self._as_text, checkpoint_path
    )
    name = os.path.basename(os.path.normpath(os.fsdecode(exported)))
    numbered_exports.remove_old(export_path, self._keep, name)
    return exported


class LatestExporter(_SavedModelExporter):
  """Exports each evaluated model."""

  def export(
    self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export
  ) -> Any:
    return self._save(estimator, export_path, checkpoint_path)


class FinalExporter(_SavedModelExporter):
  """Exports the final model of a training."""

  def __init__(
    self,
    name: str,
    serving_input_receiver_fn: Callable,
    assets_extra: Any = None,
    as_text: bool = False,
  ):
    super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, None)

  def export(
    self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export
  ) -> Any:
    if not is_the_final_export:
      return None
    return self._save(estimator, export_path, checkpoint_path)


def _loss_smaller(best_eval_result: dict[str, Any], current_eval_result: dict[str, Any]) -> bool:
  return current_eval_result["loss"] < best_eval_result["loss"]


class BestExporter(_SavedModelExporter):
  """Exports a model that is better than all earlier ones, in earlier processes too.

  Args:
    compare_fn: function of the best and the current result: whether the current one is better.
    event_file_pattern: without effect: Octet keeps the best result beside the exports.
  """

  def __init__(
    self,
    name: str = "best_exporter",
    serving_input_receiver_fn: Callable | None = None,
    event_file_pattern: str | None = None,
    compare_fn: Callable[[dict[str, Any], dict[str, Any]], bool] = _loss_smaller,
    assets_extra: Any = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
  ):
    del event_file_pattern
    if serving_input_receiver_fn is None:
      raise ValueError("BestExporter: serving_input_receiver_fn is missing.")
    super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
    self._is_better = compare_fn

  def export(
    self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export
  ) -> Any:
    path = exported_records.best_file(os.fspath(export_path))
    remedy = "remove it; Octet then forgets the best result so far"
    best = json_form.read(path, dict[str, float], remedy)
    if best is not None and not self._is_better(
      best_eval_result=best, current_eval_result=eval_result
    ):
      return None
    exported = self._save(estimator, export_path, checkpoint_path)
    json_form.write(path, metric_values.scalars(eval_result))
    return exported
