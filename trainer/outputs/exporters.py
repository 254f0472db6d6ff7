"""Exports models during a training: the newest one, the best one, the final one.

    run.exporters = [@BestExporter(), @FinalExporter()]
    BestExporter.metric = "accuracy"
    BestExporter.mode = "max"

Layout, below the export path, <model_dir>/export:

    <name>/<number>/                        SavedModels, see `numbered_exports`
    <name>/exported.json, exporting.json    what was exported last, see `exported_records`

An exporter is any object with `name` and `export(estimator, export_path, checkpoint_path,
eval_result, is_the_final_export)`. Its export_path is the folder of its name. If it has
`check_metrics(names)`, a training calls this at its start with the names of an evaluation's
metrics.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.config import gin_names
from trainer.hooks.estimator_protocol import Estimator
from trainer.io import json_form, storage
from trainer.outputs import exported_records, numbered_exports
from trainer.reporting import metric_values
from trainer.settings import setting_types


@dataclasses.dataclass(eq=False)
class Exporter:
  """The base class of the exporters. A subclass decides when to export.

  Attributes:
    name: the folder for the exports, below the export path; "" for the export path itself.
    serving_input_receiver_fn: see Estimator.export_saved_model.
    assets_extra: see Estimator.export_saved_model.
    exports_to_keep: number of newest exports to keep; None keeps all.

  Raises:
    SettingError: a value is invalid.
  """

  name: setting_types.InnerPath
  serving_input_receiver_fn: Callable | None = None
  assets_extra: setting_types.Assets | None = None
  exports_to_keep: setting_types.Count | None = 5

  def check_assets(self) -> None:
    """Raises SettingError if a file of assets_extra is missing."""
    for target, source in (self.assets_extra or {}).items():
      if not storage.exists(os.fspath(source)):
        raise errors.SettingError(
          f"{type(self).__name__}.assets_extra: there is no file {source} to copy as {target}."
        )

  def export(
    self,
    estimator: Estimator,
    export_path: str,
    checkpoint_path: str,
    eval_result: Mapping[str, Any],
    is_the_final_export: bool,
  ) -> str | None:
    """Exports a checkpoint, if this exporter wants it.

    Args:
      estimator: the Estimator.
      export_path: the folder for this exporter's SavedModels.
      checkpoint_path: the evaluated checkpoint.
      eval_result: its metrics, including "global_step".
      is_the_final_export: whether the training has ended.

    Returns:
      The path of the SavedModel, or None without an export.
    """
    self._recover(export_path)
    if not self._wants(exported_records.read(export_path), eval_result, is_the_final_export):
      return None
    pending = exported_records.PendingExport.begin(
      export_path, checkpoint_path, metric_values.scalars(eval_result)
    )
    try:
      exported = estimator.export_saved_model(
        export_path, self.serving_input_receiver_fn, self.assets_extra, checkpoint_path
      )
    except (Exception, KeyboardInterrupt, SystemExit):
      # If the SavedModel is there, or the folder is out of reach, the next process recovers.
      with contextlib.suppress(tf.errors.OpError, errors.OctetError):
        if pending.exported() is None:
          pending.end()
      raise
    self._record(pending, os.path.basename(exported))
    return exported

  def _recover(self, export_path):
    """Completes the export of a killed process."""
    pending = exported_records.PendingExport.find(export_path)
    if pending is None:
      return
    record = exported_records.read(export_path)
    is_recorded = record is not None and record["folder"] in pending.new()
    folder = record["folder"] if is_recorded else pending.exported()
    # Without a name the folder also serves --mode=export, and such a process may be at work there.
    if self.name:
      pending.remove_incomplete()
    if folder is None:
      pending.end()  # The next evaluation exports it again, if it still wants it.
    else:
      self._record(pending, folder)

  def _record(self, pending, folder):
    """Records a SavedModel, removes old ones, and ends the export."""
    # The order is important: once the export has ended, no process recovers it.
    path = os.path.join(pending.folder, exported_records.EXPORTED)
    json_form.write(path, {"folder": folder, "metrics": pending.metrics})
    numbered_exports.remove_old(pending.folder, self.exports_to_keep, folder)
    pending.end()

  def _wants(self, record, result, final):
    """Whether to export the evaluated model. Here: if it differs from the last export.

    Args:
      record: the content of exported.json, or None before the first export.
      result: the metrics of the evaluation.
      final: whether the training has ended.
    """
    del final
    return record is None or record["metrics"]["global_step"] != result["global_step"]


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(eq=False)
class LatestExporter(Exporter):
  """Exports every evaluated checkpoint. For the arguments see Exporter."""

  name: setting_types.InnerPath = "latest"


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(eq=False)
class FinalExporter(Exporter):
  """Exports the model at the end of a training, once per step. For the arguments see Exporter."""

  name: setting_types.InnerPath = "final"
  exports_to_keep: setting_types.Count | None = None

  def _wants(self, record, result, final):
    return final and super()._wants(record, result, final)


@gin_names.configurable(module="trainer")
class BestExporter(Exporter):
  """Exports a model that is better than all former models, also those before a restart.

  Args:
    metric: name of a metric of the evaluation, or "loss".
    mode: "min" if a smaller value is better, "max" if a larger one is.
    name: see Exporter.
    serving_input_receiver_fn: see Exporter.
    assets_extra: see Exporter.
    exports_to_keep: see Exporter.

  Raises:
    SettingError: mode is neither "min" nor "max". Later: there is no such metric.
  """

  def __init__(
    self,
    metric: str = "loss",
    mode: setting_types.MinOrMax = "min",
    name: setting_types.InnerPath = "best",
    serving_input_receiver_fn: Callable | None = None,
    assets_extra: setting_types.Assets | None = None,
    exports_to_keep: setting_types.Count | None = 5,
  ) -> None:
    super().__init__(name, serving_input_receiver_fn, assets_extra, exports_to_keep)
    self._metric = metric
    self._mode = mode

  def check_metrics(self, names: Iterable[str]) -> None:
    """Raises SettingError if an evaluation lacks the metric."""
    metric_values.require(self._metric, names, "BestExporter.metric")

  def _wants(self, record, result, final):
    value = metric_values.scalar(result, self._metric, "BestExporter.metric")
    if math.isnan(value):
      return False
    # NaN if another metric chose the last export: an exporter may get a new setting.
    best = record["metrics"].get(self._metric, math.nan) if record else math.nan
    if not math.isnan(best) and not (value < best if self._mode == "min" else value > best):
      logging.info(
        "Not exported: %s is %.5g at step %d, and %.5g is the best.",
        self._metric,
        value,
        result["global_step"],
        best,
      )
      return False
    return True


def check_outputs(exporters: Iterable[tuple[Any, str]]) -> None:
  """Checks that no two exporters write to one folder, and that the files to copy exist.

  Two exporters in one folder would share a record: each would have to beat the other's best.

  Args:
    exporters: (exporter, its user: a phrase for messages) of all exporters of a run.

  Raises:
    SettingError: two exporters share a folder, or one would write outside of the export path, is a
      class without a call, or is no exporter.
  """
  users: dict[str, str] = {}
  for exporter, user in exporters:
    if isinstance(exporter, type):
      raise errors.SettingError(
        f"{user} has the class {exporter.__name__}, not an exporter: call it, as in "
        f"@{exporter.__name__}() in gin."
      )
    if not isinstance(getattr(exporter, "name", None), str) or not callable(
      getattr(exporter, "export", None)
    ):
      raise errors.SettingError(
        f"{user} has {exporter!r} among its exporters: expected exporters, such as "
        "BestExporter(), or @BestExporter() in gin (run.exporters, EvalSpec.exporters)."
      )
    setting_types.check(
      exporter.name, setting_types.InnerPath, f"The name of {type(exporter).__name__}"
    )
    if isinstance(exporter, Exporter):
      exporter.check_assets()
    folder = os.path.normpath(os.path.join("export", exporter.name))
    this = f"{type(exporter).__name__}({exporter.name!r}) of {user}"
    if folder in users:
      raise errors.SettingError(
        f"{users[folder]} and {this} both export to <model_dir>/{folder}: give each exporter a "
        f"name of its own ({type(exporter).__name__}.name)."
      )
    users[folder] = this


def newest(export_path: str) -> str | None:
  """Returns the path of an exporter's newest SavedModel, or None. Takes the exporter's folder."""
  record = exported_records.read(export_path)
  return None if record is None else os.path.join(export_path, record["folder"])
