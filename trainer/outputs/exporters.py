"""Exports models during a training: the newest one, the best one, the final one.

    run.exporters = [@BestExporter(), @FinalExporter()]
    BestExporter.metric = "accuracy"
    BestExporter.mode = "max"

Layout, below the export path, <model_dir>/export:

    <name>/<number>/                                SavedModels, see `numbered_exports`
    <name>/<number>/assets.extra/exported.json      their metrics, see `exported_records`

An exporter is any object with `name` and `export(estimator, export_path, checkpoint_path,
eval_result, is_the_final_export)`. Its export_path is the folder of its name. If it has
`check_metrics(names)`, a training calls this at its start with the names of an evaluation's
metrics.
"""

import dataclasses
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
    record = exported_records.read(export_path)
    if record is not None:  # A killed process may have left old ones.
      numbered_exports.remove_old(export_path, self.exports_to_keep, record["folder"])
    if not self._wants(record, eval_result, is_the_final_export):
      return None
    with tempfile.TemporaryDirectory() as folder:
      # The SavedModel appears with its record.
      path = os.path.join(folder, exported_records.EXPORTED)
      json_form.write(path, metric_values.scalars(eval_result))
      assets = {**(self.assets_extra or {}), exported_records.EXPORTED: path}
      exported = estimator.export_saved_model(
        export_path, self.serving_input_receiver_fn, assets, checkpoint_path
      )
    numbered_exports.remove_old(export_path, self.exports_to_keep, os.path.basename(exported))
    return exported

  def _wants(self, record, result, final):
    """Whether to export the evaluated model. Here: if it differs from the last export.

    Args:
      record: see exported_records.read.
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
