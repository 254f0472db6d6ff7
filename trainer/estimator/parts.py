"""The parts of an Estimator, made from its settings.

This module alone connects the parts. It reads and writes nothing.
"""

import dataclasses
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
from trainer.loop import thread_lock, training, training_lock, variable_check, watchdog
from trainer.outputs import exported_records, options, prediction_stream, saved_model
from trainer.pjrt import compiled_forms
from trainer.programs import device_loops, loop_input, step
from trainer.reporting import evaluations_file
from trainer.settings import batch_sizes as batch_sizes_lib


@dataclasses.dataclass(frozen=True)
class Parts:
  """What an Estimator hands its calls on to."""

  checkpoints: directory.CheckpointDirectory
  lock: training_lock.TrainingLock
  thread_lock: thread_lock.ThreadLock
  program: step.Program
  values: model_values.ModelValues
  loops: device_loops.DeviceLoops
  feeder: feeder.Feeder
  inputs: loop_input.LoopInputs
  position: data_position.DataPosition
  saver: saver.Saver
  training: training.Training
  evaluator: evaluator.Evaluator
  predictor: prediction_stream.Predictor
  export: saved_model.SavedModelExport


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
  """The arguments of an Estimator, and its device.

  Attributes:
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
  """

  model_fn: spec.ModelFn
  model_dir: str
  config: run_config.RunConfig
  params: dict[str, Any]
  batch_sizes: batch_sizes_lib.BatchSizes
  warm_start_from: Any
  export_options: options.ExportOptions
  device: device_lib.Device
  workers: workers_lib.Workers
  watchdog: watchdog.Watchdog

  @property
  def all_params(self) -> dict[str, Any]:
    """The params, with the device's additions."""
    return dict(self.params, use_tpu=self.device.kind == "tpu")


def make(given: Given) -> Parts:
  """Makes the parts.

  Raises:
    SettingError: warm_start_from or RunConfig.compiled cannot work.
  """
  _check_compiled(given)
  lock = training_lock.TrainingLock(
    given.model_dir, given.config.force, is_needed=given.device.is_chief
  )
  one_thread = thread_lock.ThreadLock(f"the Estimator of {given.model_dir}")
  checkpoints = _checkpoints(given)
  program = _program(given)
  values = _values(given, program, checkpoints)
  loops = device_loops.DeviceLoops(
    program,
    given.config,
    given.device.replicas,
    is_one_cpu=given.device.kind == "cpu" and given.device.replicas == 1,
  )
  feeding = _feeder(given)
  inputs = loop_input.LoopInputs(feeding, loops)
  position = data_position.DataPosition()
  saving = saver.Saver(
    program.store, values, position, checkpoints, given.workers, lock.check, given.watchdog.stage
  )
  shared: dict[str, Any] = dict(
    program=program, inputs=inputs, values=values, workers=given.workers, watchdog=given.watchdog
  )
  of_run: dict[str, Any] = dict(model_dir=given.model_dir, **shared)
  return Parts(
    checkpoints=checkpoints,
    lock=lock,
    thread_lock=one_thread,
    program=program,
    values=values,
    loops=loops,
    feeder=feeding,
    inputs=inputs,
    position=position,
    saver=saving,
    training=training.Training(
      config=given.config,
      position=position,
      saver=saving,
      checkpoints=checkpoints,
      lock=lock,
      variables=variable_check.VariableCheck(program.store, given.workers),
      **of_run,
    ),
    evaluator=evaluator.Evaluator(**of_run),
    predictor=prediction_stream.Predictor(thread_lock=one_thread, **shared),
    export=_export(given, values, feeding),
  )


def _checkpoints(given):
  config = given.config
  keep = config.retention or retention.Retention(newest=config.keep_checkpoint_max)
  return directory.CheckpointDirectory(
    given.model_dir,
    keep,
    config.on_checkpoint_failure,
    # The order matters: the evaluations explain the exporters' records.
    movers=(exported_records.set_aside, evaluations_file.set_aside),
    read_scores=functools.partial(
      evaluations_file.read_metric, given.model_dir, keep.evaluation, keep.metric
    ),
  )


def _check_compiled(given):
  """Raises SettingError if RunConfig.compiled is not usable here."""
  folder, device = given.config.compiled, given.device
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


def _program(given):
  device = given.device
  sizes = given.batch_sizes.all_on(device.replicas)
  return step.Program(
    given.model_fn,
    strategy=device.strategy,
    params=given.all_params,
    batch_sizes={kind: size.per_core for kind, size in sizes.items()},
    config=given.config,
    uses_cpu_kernels=device.uses_cpu_kernels(given.config.cpu_kernels),
    xla_devices=device.xla_devices,
  )


def _values(given, program, checkpoints):
  warm = given.warm_start_from
  settings = None if warm is None else warm_start.as_settings(warm)
  return model_values.ModelValues(program.store, checkpoints, settings, given.config.evaluate_ema)


def _feeder(given):
  return feeder.Feeder(
    feeder.layout_of(given.device, given.config),
    lambda kind: given.batch_sizes.resolve(kind, given.device.replicas).per_core,
    given.config,
    given.all_params,
    given.watchdog.stage,
  )


def _export(given, values, feeding):
  return saved_model.SavedModelExport(
    given.model_fn,
    given.model_dir,
    given.config,
    given.all_params,
    values,
    feeding,
    given.export_options,
  )
