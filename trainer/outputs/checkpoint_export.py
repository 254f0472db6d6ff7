"""Exports a checkpoint of a run as a SavedModel."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from trainer import run_config, spec
from trainer.checkpoints import model_values, retention
from trainer.inputs import decodable, feeder
from trainer.io import files
from trainer.outputs import completion, options, saved_model
from trainer.settings.kinds import Kind


class CheckpointExport:
  """Exports what a model is at a checkpoint.

  Args:
    model_fn: the ModelFn.
    model_dir: the folder of the run, whose evaluations the export tells of.
    config: the RunConfig.
    params: dict for the model_fn, without "batch_size".
    values: the ModelValues of the run.
    feeder_: the Feeder, which knows what features the model takes.
    export_options: an ExportOptions.
  """

  def __init__(
    self,
    *,
    model_fn: spec.ModelFn,
    model_dir: str,
    config: run_config.RunConfig,
    params: dict[str, Any],
    values: model_values.ModelValues,
    feeder_: feeder.Feeder,
    export_options: options.ExportOptions,
  ) -> None:
    self._model_fn = model_fn
    self._model_dir = model_dir
    self._config = config
    self._params = params
    self._values = values
    self._feeder = feeder_
    self._options = export_options

  def save(
    self,
    export_dir_base: str | os.PathLike,
    serving_input_receiver_fn: Callable | None,
    assets_extra: Mapping[str, str] | None,
    checkpoint_path: str | os.PathLike | None,
  ) -> str:
    """Writes a SavedModel; arguments, result and errors as of Estimator.export_saved_model."""
    self._values.source(checkpoint_path)  # an error, before anything is compiled, if there is none
    kind, dataset = self._feeder.feature_dataset
    if dataset is None:
      feature_spec, decoders, sample = None, {}, None
    else:
      feature_spec = saved_model.free_batch(dataset.element_spec[0])
      decoders = decodable.decoders_of(dataset)

      def sample(count):
        return saved_model.sample(dataset, kind, count)

    about = completion.Completion(self._options, {}, decoders, sample)

    def give_values(program):
      names = program.calls.restored_names(Kind.PREDICT)
      source, step = self._values.assign_to(program.store, checkpoint_path, names)
      about.about = self._about(source, step)

    exported = saved_model.save(
      self._model_fn,
      params=self._params,
      config=self._config,
      feature_spec=feature_spec,
      give_values=give_values,
      export_dir_base=os.fspath(export_dir_base),
      serving_input_receiver_fn=serving_input_receiver_fn,
      assets_extra=assets_extra,
      completion=about,
    )
    source = files.shown(about.about["checkpoint"])
    logging.info("Exported %s to %s", source, files.shown(exported))
    return exported

  def _about(self, source, step):
    """What an export says of where it comes from."""
    metrics = {}
    if self._values.is_own(source):
      metrics = retention.read_evaluations(self._model_dir, "").get(step, {})
    return {
      "model": self._model_fn.full_name,
      "checkpoint": source,
      "global_step": step,
      "metrics": metrics,
    }
