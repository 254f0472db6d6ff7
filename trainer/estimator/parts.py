"""The parts of an Estimator, made from its settings.

Which part knows which others is said here and nowhere else. Nothing is read or written.
"""

import dataclasses
import functools
from typing import Any

from trainer import run_config, spec
from trainer.checkpoints import data_position, directory, model_values, retention, saver, warm_start
from trainer.devices import device as device_lib
from trainer.devices import workers as workers_lib
from trainer.evaluation import evaluator
from trainer.inputs import feeder
from trainer.loop import training, training_lock, turns, watchdog
from trainer.outputs import exported_records, options, prediction_stream, saved_model
from trainer.programs import device_loops, loop_input, program_length, step
from trainer.settings import batch_sizes as batch_sizes_lib


@dataclasses.dataclass(frozen=True)
class Parts:
  """What an Estimator hands its calls on to."""

  checkpoints: directory.CheckpointDirectory
  lock: training_lock.TrainingLock
  turns: turns.Turns
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


def make(
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
  watching: watchdog.Watchdog,
) -> Parts:
  """Makes the parts.

  Args:
    model_fn: the ModelFn.
    model_dir: the folder.
    config: the RunConfig.
    params: dict for model_fn and the input_fns, without "batch_size".
    batch_sizes: the BatchSizes, which fit the device.
    warm_start_from: a path, WarmStartSettings, or None.
    export_options: an ExportOptions.
    device: the Device.
    workers: the Workers of the device.
    watching: the Watchdog.

  Raises:
    SettingError: warm_start_from cannot work.
  """
  params = dict(params, use_tpu=device.kind == "tpu")
  keep = config.retention or retention.Retention(newest=config.keep_checkpoint_max)
  checkpoints = directory.CheckpointDirectory(
    model_dir,
    keep,
    config.on_checkpoint_failure,
    # The order is important: the exporters' records are understood by the evaluations.
    movers=(exported_records.set_aside, retention.set_aside_evaluations),
  )
  lock = training_lock.TrainingLock(model_dir, config.force, is_needed=device.is_chief)
  in_turns = turns.Turns(f"the Estimator of {model_dir}")

  xla = device.uses_xla(config.xla, config.static_shapes)
  sizes = batch_sizes.all_on(device.replicas)
  program = step.Program(
    model_fn,
    strategy=device.strategy,
    params=params,
    batch_sizes={kind: size.per_core for kind, size in sizes.items()},
    config=config,
    # What they do for an operation, XLA does for the whole step.
    uses_cpu_kernels=device.uses_cpu_kernels(False if xla else config.cpu_kernels),
  )
  settings = None if warm_start_from is None else warm_start.as_settings(warm_start_from)
  values = model_values.ModelValues(program.store, checkpoints, settings, config.evaluate_ema)
  loops = device_loops.make(
    program,
    device.local_replicas,
    config.tpu_config.host_call_every_n_steps,
    on_one_cpu=device.kind == "cpu" and device.replicas == 1,
    xla=xla,
  )

  feeding = feeder.Feeder(
    feeder.layout_of(device, config),
    lambda kind: batch_sizes.resolve(kind, device.replicas).per_core,
    config,
    params,
    watching.stage,
  )
  inputs = loop_input.LoopInputs(
    feeding,
    loops,
    functools.partial(program_length.steps_per_program, config, device),
    functools.partial(program_length.groups_per_program, config, device),
    results_bytes=config.tpu_config.stacked_input_bytes,
    driven_hosts=device.driven_hosts,
  )
  position = data_position.DataPosition()
  saving = saver.Saver(
    program.store, values, position, checkpoints, workers, lock.check, watching.stage
  )

  shared: dict[str, Any] = dict(program=program, inputs=inputs, values=values, watchdog=watching)
  trains = training.Training(
    config=config,
    model_dir=model_dir,
    position=position,
    saver=saving,
    checkpoints=checkpoints,
    lock=lock,
    workers=workers,
    **shared,
  )
  evaluates = evaluator.Evaluator(
    model_dir=model_dir,
    loops=loops,
    workers=workers,
    between_batches=trains.leave_if_asked,
    **shared,
  )
  predicts = prediction_stream.Predictor(loops=loops, turns_=in_turns, **shared)
  export = saved_model.SavedModelExport(
    model_fn, model_dir, config, params, values, feeding, export_options
  )
  return Parts(
    checkpoints,
    lock,
    in_turns,
    program,
    values,
    loops,
    feeding,
    inputs,
    position,
    saving,
    trains,
    evaluates,
    predicts,
    export,
  )
