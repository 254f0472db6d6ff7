"""What is exported on the way, and when: the newest model, the best one, the last one.

    run.exporters = [@BestExporter(), @FinalExporter()]
    BestExporter.metric = "accuracy"
    BestExporter.mode = "max"

Layout, below the export path, which is <model_dir>/export:

    <name>/<timestamp>/       SavedModels
    <name>/exported.json      of the newest: its step, its metrics and its folder

An exporter is any object with `name` and `export(estimator, export_path, checkpoint_path,
eval_result, is_the_final_export)`; export_path is that of its own name.
"""

import json
import math
import os

import tensorflow as tf
from absl import logging

from trainer import errors, files, run_config
from trainer.config import gin_names
from trainer.reporting import host_metrics

_RECORD = "exported.json"


class Exporter:
  """What exporters have in common.

  Args:
    name: the folder that it exports to, below the export path; "" for that path itself.
    serving_input_receiver_fn, assets_extra: see Estimator.export_saved_model.
    exports_to_keep: int > 0, how many of the newest; None for all.

  Raises:
    SettingError: a value that cannot work.
  """

  def __init__(self, name, serving_input_receiver_fn=None, assets_extra=None, exports_to_keep=5):
    if exports_to_keep is not None:
      run_config.require_positive_int(exports_to_keep, f"{type(self).__name__}.exports_to_keep")
    self.name = name
    self._receiver_fn = serving_input_receiver_fn
    self._assets_extra = assets_extra
    self._keep = exports_to_keep

  def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
    """Exports if it is time to.

    Args:
      estimator: the Estimator.
      export_path: the folder for this exporter's SavedModels.
      checkpoint_path: the checkpoint that was evaluated.
      eval_result: its metrics, of which "global_step" is one.
      is_the_final_export: whether the training has ended.

    Returns:
      The SavedModel's path, or None.
    """
    record = _read(export_path)
    if not self._wants(record, eval_result, is_the_final_export):
      return None
    exported = estimator.export_saved_model(
      export_path, self._receiver_fn, self._assets_extra, checkpoint_path
    )
    _write(
      export_path,
      {"folder": os.path.basename(exported), "metrics": host_metrics.scalars(eval_result)},
    )
    self._remove_old(export_path)
    return exported

  def _wants(self, record, result, final):
    """Whether to export a model with this evaluation's result, after what the record (dict, or
    None) tells of.
    """
    raise NotImplementedError

  def _remove_old(self, export_path):
    exports = sorted(
      (name.rstrip("/") for name in tf.io.gfile.listdir(export_path) if name.rstrip("/").isdigit()),
      key=int,
    )
    for name in exports[: -self._keep] if self._keep else []:
      tf.io.gfile.rmtree(os.path.join(export_path, name))


@gin_names.configurable(module="trainer")
class LatestExporter(Exporter):
  """Exports every checkpoint that is evaluated."""

  def __init__(
    self, name="latest", serving_input_receiver_fn=None, assets_extra=None, exports_to_keep=5
  ):
    super().__init__(name, serving_input_receiver_fn, assets_extra, exports_to_keep)

  def _wants(self, record, result, final):
    return record is None or record["metrics"]["global_step"] != result["global_step"]


@gin_names.configurable(module="trainer")
class FinalExporter(Exporter):
  """Exports the model that the training ends with; again only when it was trained further."""

  def __init__(
    self, name="final", serving_input_receiver_fn=None, assets_extra=None, exports_to_keep=None
  ):
    super().__init__(name, serving_input_receiver_fn, assets_extra, exports_to_keep)

  def _wants(self, record, result, final):
    return final and (record is None or record["metrics"]["global_step"] != result["global_step"])


@gin_names.configurable(module="trainer")
class BestExporter(Exporter):
  """Exports a model that is better than all before it, those of earlier processes too.

  Args:
    metric: name of a metric of the evaluation, or "loss".
    mode: "min" or "max": which is better.
    name, serving_input_receiver_fn, assets_extra, exports_to_keep: see Exporter.

  Raises:
    SettingError: mode is neither; or, at the first evaluation, there is no such metric.
  """

  def __init__(
    self,
    metric="loss",
    mode="min",
    name="best",
    serving_input_receiver_fn=None,
    assets_extra=None,
    exports_to_keep=5,
  ):
    super().__init__(name, serving_input_receiver_fn, assets_extra, exports_to_keep)
    run_config.require_min_or_max(mode, "BestExporter.mode")
    self._metric = metric
    self._mode = mode

  def _wants(self, record, result, final):
    value = host_metrics.scalar(result, self._metric, "BestExporter.metric")
    if math.isnan(value):
      return False
    best = record["metrics"].get(self._metric) if record else None
    if best is not None and not (value < best if self._mode == "min" else value > best):
      logging.info(
        "Not exported: %s is %.5g at step %d, and %.5g is the best.",
        self._metric,
        value,
        result["global_step"],
        best,
      )
      return False
    return True


def newest(export_path):
  """The path of the SavedModel that was exported last to an exporter's path, or None."""
  record = _read(export_path)
  return record and os.path.join(export_path, record["folder"])


def _read(export_path):
  path = os.path.join(export_path, _RECORD)
  if not tf.io.gfile.exists(path):
    return None
  try:
    with tf.io.gfile.GFile(path) as file:
      return json.loads(file.read())
  except ValueError as error:
    raise errors.OutputError(
      f"{path} is damaged ({error}): remove it; what was exported so far is then unknown."
    ) from error


def _write(export_path, record):
  with files.write_atomically(os.path.join(export_path, _RECORD)) as file:
    file.write(json.dumps(record, indent=1))
