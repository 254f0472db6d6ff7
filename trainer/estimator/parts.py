"""The parts of an Estimator, made from its settings.

This module alone connects the parts. It reads and writes nothing.
"""

import functools
import os
from typing import Any

from trainer import errors, run_config, spec
from trainer.checkpoints import data_position, directory, model_values, retention, saver, warm_start
from trainer.cli import command
from trainer.devices import device as device_lib
from trainer.devices import workers as workers_lib
from trainer.evaluation import evaluator
from trainer.inputs import feeder
from trainer.loop import thread_lock, training, training_lock, variable_check
from trainer.loop import watchdog as watchdog_lib
from trainer.outputs import exported_records, options, prediction_stream, saved_model
from trainer.pjrt import compiled_forms
from trainer.programs import device_loops, loop_input, step
from trainer.reporting import evaluations_file
from trainer.settings import batch_sizes as batch_sizes_lib


class Parts:
  """What an Estimator hands its calls on to.

  Args:
    model_fn: the ModelFn.
    model_dir: the folder.
    config: the RunConfig.
    params: dict for model_fn and the input_fns, without "batch_size".
    batch_sizes: the BatchSizes; they fit the device.
    warm_start_from: a path, WarmStartSettings, or None.
    export_options: an ExportOptions.
    device: the Device.
    workers: the Workers of the device.
    watchdog: the Watchdog.

  Raises:
    SettingError: warm_start_from or RunConfig.compiled cannot work.
  """

  def __init__(
    self,
    *,
    model_fn: spec.ModelFn,
    model_dir: str,
    config: run_config.RunConfig,
    params: dict[str, Any],
    batch_sizes: batch_sizes_lib.BatchSizes,
    warm_start_from: Any,
    export_options: options.ExportOptions,
    device: device_lib.Device,
    workers: workers_lib.Workers,
    watchdog: watchdog_lib.Watchdog,
  ) -> None:
    _check_compiled(config.compiled, device)
    params = _params_on(device, params)
    self.lock = training_lock.TrainingLock(model_dir, config.force, is_needed=device.is_chief)
    self.thread_lock = thread_lock.ThreadLock(f"the Estimator of {model_dir}")
    self.checkpoints = _checkpoints(model_dir, config)
    self.program = _program(model_fn, params, batch_sizes, config, device)
    warm = None if warm_start_from is None else warm_start.as_settings(warm_start_from)
    self.values = model_values.ModelValues(
      self.program.store, self.checkpoints, warm, config.evaluate_ema
    )
    loops = device_loops.DeviceLoops(self.program, config, device)
    size_of = lambda kind: batch_sizes.resolve(kind, device.replicas).per_core
    self.feeder = feeder.Feeder(device, size_of, config, params, watchdog.stage)
    self.inputs = loop_input.LoopInputs(self.feeder, loops)
    self.position = data_position.DataPosition()
    self.saver = saver.Saver(
      self.program.store,
      self.values,
      self.position,
      self.checkpoints,
      workers,
      self.lock.check,
      watchdog.stage,
    )
    shared: dict[str, Any] = dict(
      program=self.program,
      inputs=self.inputs,
      values=self.values,
      workers=workers,
      watchdog=watchdog,
    )
    self.training = training.Training(
      model_dir=model_dir,
      config=config,
      position=self.position,
      saver=self.saver,
      checkpoints=self.checkpoints,
      lock=self.lock,
      variables=variable_check.VariableCheck(self.program.store, workers),
      **shared,
    )
    self.evaluator = evaluator.Evaluator(model_dir=model_dir, **shared)
    self.predictor = prediction_stream.Predictor(thread_lock=self.thread_lock, **shared)
    self.export = saved_model.SavedModelExport(
      model_fn, model_dir, config, params, self.values, self.feeder, export_options
    )


def _params_on(device, params):
  """Returns the params with the device's additions."""
  return dict(params, use_tpu=device.kind == "tpu")


def _program(model_fn, params, batch_sizes, config, device):
  sizes = batch_sizes.all_on(device.replicas)
  return step.Program(
    model_fn,
    strategy=device.strategy,
    params=params,
    batch_sizes={kind: size.per_core for kind, size in sizes.items()},
    config=config,
    uses_cpu_kernels=device.uses_cpu_kernels(config.cpu_kernels),
    xla_devices=device.xla_devices,
  )


def _checkpoints(model_dir, config):
  keep = config.retention or retention.Retention(newest=config.keep_checkpoint_max)
  return directory.CheckpointDirectory(
    model_dir,
    keep,
    config.on_checkpoint_failure,
    # The order matters: the evaluations explain the exporters' records.
    movers=(exported_records.set_aside, evaluations_file.set_aside),
    read_scores=functools.partial(
      evaluations_file.read_metric, model_dir, keep.evaluation, keep.metric
    ),
  )


def _check_compiled(folder, device):
  """Raises SettingError if RunConfig.compiled is not usable here."""
  if folder in ("", compiled_forms.AUTO):
    return
  if not device.runs_by_pjrt:
    raise errors.SettingError(
      f"--compiled={folder} keeps programs for XLA devices, and --device is {device}: take "
      "--compiled away, or use --device=xla:8."
    )
  command.require_local(folder, "--compiled")
  if os.path.exists(folder) and not os.path.isdir(folder):
    raise errors.SettingError(f"--compiled={folder} is a file; expected a folder, or a new name.")
