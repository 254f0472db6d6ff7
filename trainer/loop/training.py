"""Trains a model in its model_dir, once or several times, from the newest checkpoint to the last.

training = Training(...)  # the parts of an Estimator
training.train(Call(input_fn, estimator, hooks, batch_size=32, max_steps=1000))
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tensorflow as tf
from absl import logging

from trainer import errors, run_config, spec
from trainer.checkpoints import data_position, directory, model_values, reader, variable_table
from trainer.checkpoints import saver as saver_lib
from trainer.devices import workers as workers_lib
from trainer.hooks import estimator_protocol, hook_list, saving_listeners, session_run
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
  """The arguments of Estimator.train.

  Attributes:
    source: the train input_fn, or its LoopInput.
    estimator: the argument of the hooks.
    hooks: list of hooks.
    batch_size: examples in a step, over all replicas.
    steps: the number of further steps, or None.
    max_steps: the last global step, or None.
    listeners: saving listeners.
    evaluations: the Evaluations of the checkpoints, or None.
    ends_with_input: whether the end of the input completes the training.
  """

  source: Callable | loop_input.LoopInput
  estimator: estimator_protocol.Estimator
  hooks: Sequence[Any]
  batch_size: int
  steps: int | None = None
  max_steps: int | None = None
  listeners: Sequence[Any] = ()
  evaluations: boundaries.Evaluations | None = None
  ends_with_input: bool = False


@dataclasses.dataclass(frozen=True)
class _Begun:
  """A training with its program, the values of its variables, and the model_dir.

  Attributes:
    call: its Call.
    checkpoint: path of the checkpoint from which it resumes, or None.
    input: the LoopInput.
    hooks: the Call's hooks and the model_fn's.
    start: the first global step.
    final_step: the last global step, or None for the end of the input.
  """

  call: Call
  checkpoint: str | None
  input: loop_input.LoopInput
  hooks: Sequence[Any]
  start: int
  final_step: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
  """Trains a model.

  Attributes:
    values: the values of the program's variables.
    position: the position in the data, for the saver.
    checkpoints: the checkpoints; they recover an incomplete save of a killed process.
    lock: the TrainingLock, held by the caller.
    variables: the check of the program's variables.
  """

  config: run_config.RunConfig
  model_dir: str
  program: step_lib.Program
  inputs: loop_input.LoopInputs
  values: model_values.ModelValues
  position: data_position.DataPosition
  saver: saver_lib.Saver
  checkpoints: directory.CheckpointDirectory
  lock: training_lock.TrainingLock
  workers: workers_lib.Workers
  watchdog: watchdog_lib.Watchdog
  variables: variable_check.VariableCheck

  def train(self, call: Call) -> None:
    """Trains from the newest checkpoint, with the errors of Estimator.train."""
    hooks = session_run.adapt(call.hooks, "train")
    saving_listeners.check(call.listeners, "saving_listeners")
    try:
      with preemption.explain_interrupt(preemption.NOTHING_TO_SAVE):
        begun = self._begin(call, hooks)
      if begun is not None:
        try:
          self._train(begun)
        except BaseException as error:
          hook_list.HookList(begun.hooks, call.estimator).failed(error)
          raise
    except KeyboardInterrupt:  # who wants to go does not wait
      raise
    except BaseException:
      # Otherwise the running save would reach into the next training.
      self.saver.wait_and_warn()
      raise

  def _begin(self, call, hooks):
    """Returns a _Begun; None if there is nothing left to train."""
    # 1. The start. Look up the newest checkpoint once: another may appear at any moment, and the
    # weights, the step and the position in the data must come from the same checkpoint.
    if self.workers.device.is_chief:
      self.checkpoints.recover()
      self.checkpoints.finish_cut_off_save()
    self.workers.broadcast_from_chief(0)  # the others look after this
    latest = self.values.latest()
    if latest and _is_complete(latest, call):
      return None
    input_fn = loop_input.input_fn_of(call.source)
    position = self.position.of(latest, input_fn, call.batch_size)

    # 2. The trace of the loop, which makes the variables, and their values.
    train_input = self.inputs.call_and_trace(Kind.TRAIN, call.source, start=position)
    specification = train_input.traced.step.specification
    hooks = [*hooks, *session_run.adapt(specification.training_hooks, "training_hooks")]
    if latest is None:
      # A scaffold_fn may ask for initial values from a checkpoint.
      self.program.calls.call_scaffold_fn(Kind.TRAIN)
    self.values.load(latest or model_values.WARM_START)
    start = int(self.program.global_step.numpy())
    final_step = start + call.steps if call.steps is not None else call.max_steps
    if final_step is None and train_input.is_endless:
      logging.warning(
        "This training has no end: its input repeats for ever, and there is neither steps nor "
        "max_steps (run.train_steps). Ctrl-C saves a checkpoint and ends it."
      )

    # 3. The folder. Only now, because a refused training must leave it unchanged.
    self._take_model_dir(start)
    if self.workers.device.is_chief:
      logging.info("%s", variable_table.table(self.program.store.variables))
    self.position.begin(input_fn, position)
    return _Begun(call, latest, train_input, hooks, start, final_step)

  def _train(self, begun):
    """Trains in the model_dir: runs the loop, and the work at its boundaries."""
    device, call = self.workers.device, begun.call
    watch = preemption.Watch(None if device.is_multi_worker else self._leave)
    with (
      watch.handle_signals(),
      self.checkpoints.ignore_edits(),
      contextlib.closing(
        training_report.TrainingReport(
          self.model_dir,
          self.config,
          begun.start,
          begun.final_step,
          call.batch_size,
          writes=device.is_chief,
        )
      ) as report,
    ):
      at_boundaries = boundaries.Boundaries(
        config=self.config,
        hooks=hook_list.HookList(
          begun.hooks, call.estimator, self.watchdog.stage, self.program.store.bring_to_host
        ),
        listeners=call.listeners,
        evaluations=call.evaluations,
        saver=self.saver,
        report=report,
        workers=self.workers,
        watch=watch,
        leave=self._leave,
        variables=self.variables,
        start=begun.start,
        checkpoint=begun.checkpoint,
      )
      with preemption.explain_interrupt(preemption.NOTHING_TO_SAVE):
        is_over = at_boundaries.begin()
      with self.values.protect_training():
        self._loop(begun, at_boundaries, report, is_over)

  def _leave(self, asked: int) -> NoReturn:
    self.saver.wait()
    preemption.leave(asked, self.saver.latest_step(), self.model_dir)

  def _loop(self, begun, at_boundaries, report, is_over):
    """Runs device loops to the final step, with rollbacks, and ends the training."""
    rollbacks = rollback.Rollback(
      config=self.config,
      model_dir=self.model_dir,
      device=self.workers.device,
      program=self.program,
      variables=self.variables,
      values=self.values,
      position=self.position,
      inputs=self.inputs,
      batch_size=begun.call.batch_size,
    )
    reached, data_ended = begun.start, False
    while True:
      try:
        if not is_over:
          reached, data_ended = outer_loop.train(
            functools.partial(self._run_device_loop, begun),
            reached,
            begun.final_step or _NO_END,
            at_boundaries.loop_length,
            at_boundaries.after_loop,
          )
        if data_ended:
          self._mark_data_ended(begun, reached, at_boundaries.has_stepped)
        self._warn_of_unapplied_gradients(reached)
        at_boundaries.finish(reached, data_ended)
        return
      except non_finite.NonFinite as found:
        with self.watchdog.stage("look for the first tensor with NaN or infinite values"):
          reached = rollbacks.handle(found, begun.input.input_fn)
        report.went_back_to(reached)

  def _mark_data_ended(self, begun, reached, has_stepped):
    """Says that the data has ended, and has the next checkpoint say so."""
    # A resumed training may have no data left: the process before ended between the last step and
    # the checkpoint that records the end of the data.
    if not has_stepped and not begun.input.start:
      raise errors.InputError(
        f"The train input_fn {spec.name_of(begun.input.input_fn)} gave no batch for "
        "a step: its dataset is empty or too small."
      )
    self.position.mark_ended(begun.call.ends_with_input, begun.final_step)
    if begun.final_step is not None:
      logging.warning("Training ended: input exhausted at step %d of %d", reached, begun.final_step)
    else:
      logging.info("Training ended: input exhausted at step %d", reached)

  def _warn_of_unapplied_gradients(self, reached):
    for window in sorted(self.program.store.windows):
      if unapplied := reached % window:
        logging.warning(
          "Training ended at step %d, and minimize.accumulate_steps = %d updates the weights at "
          "multiples of itself: the last %d gradient(s) are in the checkpoint, not in the weights. "
          "A training that continues applies them. To leave none, train a multiple of %d steps.",
          reached,
          window,
          unapplied,
          window,
        )

  def _run_device_loop(self, begun, steps):
    """Runs training steps on the device; returns the result of train_loop.TracedLoop.run."""
    train_input = begun.input
    # Said before, since a loop that fails half-way has changed them too.
    self.values.invalidate()
    stage = "training steps, or the input that they wait for"
    if self.position.examples == train_input.start:
      stage = "first training steps: first batch, compilation"
    with (
      step_errors.of_step(self.program.calls.model_name, Kind.TRAIN),
      read_errors.translate(train_input.input_fn, Kind.TRAIN, train_input.traced.failed_in_input),
      self.watchdog.stage(stage),
    ):
      result = train_input.traced.run(train_input.iterator, steps)
      done = int(result["steps"])  # which waits for them
    self.position.advance(done * begun.call.batch_size)
    return result

  def _take_model_dir(self, start):
    """Makes the folder and takes it for this training, on all workers at one step."""
    try:
      storage.makedirs(self.model_dir)
    except errors.OctetError:
      raise
    except (tf.errors.OpError, OSError) as error:
      raise errors.OutputError(
        f"Cannot make the folder {self.model_dir} (--model_dir): {error}"
      ) from error
    if self.lock.take() and self.checkpoints.steps():
      raise errors.ModelDirBusyError(
        f"Another training wrote to {self.model_dir} (--model_dir) after this one began: restart, "
        "to resume from its checkpoint."
      )
    if self.workers.device.is_chief:
      self.checkpoints.go_back()
    if self.workers.broadcast_from_chief(start) != start:
      raise errors.SettingError(
        f"Worker {self.workers.device.host} starts at step {start}, the chief at "
        f"another: all must have the same {self.model_dir}."
      )


def _is_complete(latest, call):
  """Whether a training has nothing left to do after its newest checkpoint."""
  step = reader.read_step(latest)
  if call.max_steps is not None and step >= call.max_steps:
    logging.info(
      "Training is complete: %s is at step %d, max_steps is %d.", latest, step, call.max_steps
    )
    return True
  if call.ends_with_input and data_position.has_ended(latest, call.max_steps):
    logging.info(
      "Training ended: an earlier run exhausted the input at step %d (recorded in %s). To train "
      "more, with the data from their beginning, give another number of steps (run.train_steps, "
      "max_steps), or call Estimator.train.",
      step,
      latest,
    )
    return True
  return False
