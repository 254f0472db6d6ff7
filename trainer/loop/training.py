"""One training after another of a model in its model_dir: from the newest checkpoint to the last.

training = Training(...)  # the parts of an Estimator
training.run(input_fn, hooks, max_steps=1000)
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from trainer import errors, run_config, spec
from trainer.checkpoints import data_position, directory, model_values, reader, variable_table
from trainer.checkpoints import saver as saver_lib
from trainer.devices import workers as workers_lib
from trainer.hooks import hook_list, session_run
from trainer.inputs import read_errors
from trainer.io import storage
from trainer.loop import (
  boundaries,
  non_finite,
  outer_loop,
  preemption,
  rollback,
  training_lock,
  training_report,
  variable_check,
)
from trainer.loop import watchdog as watchdog_lib
from trainer.programs import loop_input, step_errors
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind

_NO_END = 2**62


class Training:
  """Trains a model.

  Args:
    config: the RunConfig.
    model_dir: the folder.
    program: the step.Program.
    inputs: the LoopInputs.
    values: the ModelValues of its variables.
    position: the DataPosition, which the saver saves.
    saver: the Saver.
    checkpoints: the CheckpointDirectory, which is cleaned of what a killed process left.
    lock: the TrainingLock, which the caller holds.
    workers: the Workers.
    watchdog: the Watchdog.
  """

  def __init__(
    self,
    *,
    config: run_config.RunConfig,
    model_dir: str,
    program: step_lib.Program,
    inputs: loop_input.LoopInputs,
    values: model_values.ModelValues,
    position: data_position.DataPosition,
    saver: saver_lib.Saver,
    checkpoints: directory.CheckpointDirectory,
    lock: training_lock.TrainingLock,
    workers: workers_lib.Workers,
    watchdog: watchdog_lib.Watchdog,
  ) -> None:
    self._config = config
    self._model_dir = model_dir
    self._program = program
    self._inputs = inputs
    self._values = values
    self._position = position
    self._saver = saver
    self._checkpoints = checkpoints
    self._lock = lock
    self._workers = workers
    self._watchdog = watchdog
    self._variables = variable_check.VariableCheck(program.store, workers)
    self._boundaries = None  # of the training that goes on

  def leave_if_asked(self) -> None:
    """Leaves a training that is asked to end and has saved.

    It is called between the batches of an evaluation inside the training.
    """
    if self._boundaries is not None:
      self._boundaries.leave_if_saved()

  def leave_at_once(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context for an export: a training that goes on leaves it at a signal at once."""
    if self._boundaries is None:
      return contextlib.nullcontext()
    return self._boundaries.leave_at_once()

  def run(
    self,
    source: Callable | loop_input.LoopInput,
    estimator: Any,
    hooks: Sequence[Any] | None,
    batch_size: int,
    *,
    steps: int | None = None,
    max_steps: int | None = None,
    listeners: Sequence[Any] = (),
    before_checkpoint: Callable[[int], None] | None = None,
    after_checkpoint: Callable[[int], bool] | None = None,
    ends_with_input: bool = False,
  ) -> None:
    """Trains.

    Arguments and errors are those of Estimator.train.

    Args:
      source: the train input_fn, or its LoopInput.
      estimator: what the hooks get.
      hooks: list of hooks, or None.
      batch_size: examples in a step, over all replicas.
      steps: how many more steps, or None.
      max_steps: the global step to end at, or None.
      listeners: saving listeners.
      before_checkpoint: see `boundaries.Boundaries`.
      after_checkpoint: see `boundaries.Boundaries`.
      ends_with_input: see Estimator.train.
    """
    all_hooks = session_run.adapt(hooks, "train")
    try:
      self._run(
        source,
        estimator,
        all_hooks,
        batch_size,
        steps,
        max_steps,
        listeners,
        before_checkpoint,
        after_checkpoint,
        ends_with_input,
      )
    except KeyboardInterrupt as error:  # who wants to go does not wait
      if error.args or self._boundaries is not None:
        raise
      raise preemption.Interrupted(preemption.NOTHING_TO_SAVE) from None
    except BaseException:
      # Else what is being written would come into the next training.
      self._saver.wait_and_warn()
      raise
    finally:
      self._boundaries = None

  def _run(
    self,
    source,
    estimator,
    hooks,
    batch_size,
    steps,
    max_steps,
    listeners,
    before_checkpoint,
    after_checkpoint,
    ends_with_input,
  ):
    device = self._workers.device
    # 1. Where to begin. The newest checkpoint is looked up once: another may appear at any moment,
    #    and the weights, the step and the place in the data must be those of one.
    if device.is_chief:
      self._checkpoints.recover()
      self._checkpoints.finish_cut_off_save()
    latest = self._values.latest()
    if max_steps is not None and latest and reader.read_step(latest) >= max_steps:
      logging.info(
        "Training is complete: %s is at step %d, max_steps is %d.",
        latest,
        reader.read_step(latest),
        max_steps,
      )
      return
    if ends_with_input and latest and data_position.has_ended(latest, max_steps):
      logging.info(
        "Training ended: input exhausted at step %d, which an earlier run has recorded in %s. To "
        "train more, with the data from their beginning, give another number of steps "
        "(run.train_steps, max_steps), or call Estimator.train.",
        reader.read_step(latest),
        latest,
      )
      return
    input_fn = loop_input.input_fn_of(source)
    position = self._position.of(latest, input_fn, batch_size)

    # 2. The loop is traced, which makes the variables, and these get their values.
    train_input = self._inputs.call_and_trace(Kind.TRAIN, source, start=position)
    specification = train_input.traced.step.specification
    hooks = [*hooks, *session_run.adapt(specification.training_hooks, "training_hooks")]
    if latest is None:
      # A scaffold_fn may ask for initial values from a checkpoint.
      self._program.calls.call_scaffold_fn(Kind.TRAIN)
    self._values.load(latest or model_values.WARM_START)
    start = int(self._program.global_step.numpy())
    final_step = start + steps if steps is not None else max_steps

    if final_step is None and train_input.is_endless:
      logging.warning(
        "This training has no end: its input repeats for ever, and neither steps nor max_steps "
        "(run.train_steps) is given. Ctrl-C saves a checkpoint and ends it."
      )

    # 3. The folder: only now, since a training that is refused must leave it as it is.
    self._take_model_dir(start)
    if device.is_chief:
      logging.info("%s", variable_table.table(self._program.store.variables))
    self._position.begin(input_fn, position)

    # 4. The loop, and what is done at its boundaries.
    watch = preemption.Watch()
    with (
      watch.handle_signals(),
      self._checkpoints.ignore_edits(),
      contextlib.closing(
        training_report.TrainingReport(
          self._model_dir, self._config, start, final_step, batch_size, writes=device.is_chief
        )
      ) as report,
    ):
      at_boundaries = boundaries.Boundaries(
        config=self._config,
        model_dir=self._model_dir,
        hooks=hook_list.HookList(hooks, estimator, self._watchdog.stage),
        listeners=listeners,
        before_checkpoint=before_checkpoint,
        after_checkpoint=after_checkpoint,
        saver=self._saver,
        report=report,
        workers=self._workers,
        preemption_watch=watch,
        variables=self._variables,
        start=start,
        final_step=final_step,
        checkpoint=latest,
      )
      at_boundaries.begin()
      self._boundaries = at_boundaries
      with self._values.protect_training():
        self._loop(
          at_boundaries, train_input, start, final_step, batch_size, report, ends_with_input
        )

  def _loop(
    self, at_boundaries, train_input, start, final_step, batch_size, report, ends_with_input
  ):
    """Runs device loops to the final step, back from what is not finite, and ends the training."""
    rollbacks = rollback.Rollback(
      config=self._config,
      model_dir=self._model_dir,
      device=self._workers.device,
      program=self._program,
      variables=self._variables,
      values=self._values,
      position=self._position,
      inputs=self._inputs,
      batch_size=batch_size,
    )
    reached, data_ended = start, False
    while True:
      try:
        if not at_boundaries.stopped:
          reached, data_ended = outer_loop.train(
            functools.partial(self._run_device_loop, train_input, batch_size),
            reached,
            final_step or _NO_END,
            at_boundaries.loop_length,
            at_boundaries.after_loop,
          )
        if data_ended:
          self._note_end(at_boundaries, reached, train_input, final_step, ends_with_input)
        at_boundaries.finish(reached, data_ended)
        return
      except non_finite.NonFinite as found:
        with self._watchdog.stage("look for the tensor that is not finite"):
          reached = rollbacks.handle(found, train_input.input_fn)
        report.went_back_to(reached)

  def _note_end(self, at_boundaries, reached, train_input, final_step, ends_with_input):
    """Says that the data has ended, and has the next checkpoint say so."""
    # A training that goes on from a checkpoint may find that it had seen all of the data: the
    # process before was ended between the last step and the checkpoint that says so.
    if not at_boundaries.has_stepped and not train_input.start:
      raise errors.InputError(
        f"The train input_fn {spec.name_of(train_input.input_fn)} gave no batch for "
        "a step: its dataset is empty or too small."
      )
    self._position.mark_ended(ends_with_input, final_step)
    if final_step is not None:
      logging.warning("Training ended: input exhausted at step %d of %d", reached, final_step)
    else:
      logging.info("Training ended: input exhausted at step %d", reached)

  def _run_device_loop(self, train_input, batch_size, steps):
    """Runs so many training steps on the device; returns what train_loop.TracedLoop.run does."""
    # Said before, since a loop that fails half-way has changed them too.
    self._values.invalidate()
    stage = "training steps, or the input that they wait for"
    if self._position.examples == train_input.start:
      stage = "first training steps: first batch, compilation"
    with (
      step_errors.of_step(self._program.calls.model_name, Kind.TRAIN),
      read_errors.translate(train_input.input_fn, Kind.TRAIN, train_input.traced.failed_in_input),
      self._watchdog.stage(stage),
    ):
      result = train_input.traced.run(train_input.iterator, steps)
      done = int(result["steps"])  # which waits for them
    self._position.advance(done * batch_size)
    return result

  def _take_model_dir(self, start):
    """Makes the folder and takes it for this training, on all workers at one step."""
    try:
      storage.makedirs(self._model_dir)
    except errors.OctetError:
      raise
    except (tf.errors.OpError, OSError) as error:
      raise errors.OutputError(
        f"The folder {self._model_dir} (--model_dir) cannot be made: {error}"
      ) from error
    if self._lock.take() and self._checkpoints.steps():
      raise errors.ModelDirBusyError(
        f"Another training has been in {self._model_dir} (--model_dir) since this one began: start "
        "again, to go on from it."
      )
    if self._workers.device.is_chief:
      self._checkpoints.go_back()
    if self._workers.broadcast_from_chief(start) != start:
      raise errors.SettingError(
        f"Worker {self._workers.device.host} starts at step {start}, the chief at "
        f"another: all must have the same {self._model_dir}."
      )
