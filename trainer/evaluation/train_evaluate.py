"""Trains and evaluates each checkpoint in one process, or evaluates beside another's training.

Example:
    best = BestExporter("accuracy", "max")
    eval_spec = EvalSpec(eval_input_fn, exporters=[best])
    train_and_evaluate(estimator, TrainSpec(train_input_fn, max_steps=1000), eval_spec)
    evaluate_continuously(estimator, EvalSpec(eval_input_fn), max_steps=1000)
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging

from trainer import errors
from trainer.evaluation import schedule
from trainer.loop import preemption
from trainer.programs import loop_input
from trainer.settings import setting_types

EvalSpec = schedule.EvalSpec


@setting_types.check_settings
@dataclasses.dataclass(frozen=True)
class TrainSpec:
  """What to train on; see Estimator.train.

  Raises:
    SettingError: max_steps is no int > 0.
  """

  input_fn: loop_input.InputFn
  max_steps: setting_types.Count | None = None
  hooks: Sequence = ()
  saving_listeners: Sequence = ()


def train_and_evaluate(
  estimator: Any,
  train_spec: TrainSpec,
  *eval_specs: EvalSpec,
  clock: Callable[[], float] = time.monotonic,
) -> dict[str | None, dict[str, Any]]:
  """Trains to max_steps and evaluates on the way and at the end.

  It evaluates at the end also where the training was complete before.

  On machines that TF_CONFIG tells of, the task "evaluator" evaluates what the others save, and the
  others then only train.

  Where a process is killed between a checkpoint and the end of its evaluation, the next call
  evaluates this checkpoint before it goes on with the training; so the evaluations, what they stop,
  and what is exported are those of a training that was left alone. Where the input had ended, the
  next process does not train; a second call in the same process reads the input once more.

  Args:
    estimator: an Estimator.
    train_spec: a TrainSpec. A hook that has `evaluated(step, name, metrics, estimator)` is asked
      after each evaluation whether to stop; of one that an earlier process owed, after `begin`.
    *eval_specs: EvalSpecs with names of their own.
    clock: seconds.

  Returns:
    dict of EvalSpec name → metrics of the last checkpoint.

  Raises:
    SettingError: two EvalSpecs have one name, or two exporters one folder.
  """
  evaluations = schedule.Evaluations(estimator, eval_specs, clock)
  if estimator.device.role == "evaluator":
    return evaluate_continuously(estimator, *eval_specs, max_steps=train_spec.max_steps)
  ends_with_input = estimator.model_dir not in _completed
  if estimator.device.has_evaluator:
    estimator.train(
      train_spec.input_fn,
      hooks=list(train_spec.hooks),
      max_steps=train_spec.max_steps,
      saving_listeners=list(train_spec.saving_listeners),
      ends_with_input=ends_with_input,
    )
    _completed.add(estimator.model_dir)
    return {}
  with estimator.alone_in_model_dir():  # also at the last evaluation, and what is exported after it
    with preemption.explain_interrupt(
      "in an evaluation that an earlier process owed; the same command goes on with it"
    ):
      evaluations.do_owed()
    estimator.train(
      train_spec.input_fn,
      hooks=[*train_spec.hooks, schedule.TellOfOwed(evaluations, train_spec.hooks)],
      max_steps=train_spec.max_steps,
      saving_listeners=list(train_spec.saving_listeners),
      before_checkpoint=evaluations.before_save,
      after_checkpoint=functools.partial(evaluations.when_saved, hooks=train_spec.hooks),
      ends_with_input=ends_with_input,
    )
    with preemption.explain_interrupt(
      "in the last evaluation; the training is saved, and the same command "
      "goes on with what is left"
    ):
      evaluations.finish()
  _completed.add(estimator.model_dir)
  return evaluations.results


# The model_dirs of the calls that have come to their end in this process.
_completed: set[str] = set()

_SECONDS_BETWEEN_SAYING = 60.0  # that evaluate_continuously waits


def evaluate_continuously(
  estimator: Any,
  *eval_specs: EvalSpec,
  max_steps: int | None = None,
  timeout_secs: float = 3600.0,
  poll_secs: float = 1.0,
  clock: Callable[[], float] = time.monotonic,
  sleep: Callable[[float], None] = time.sleep,
) -> dict[str | None, dict[str, Any]]:
  """Evaluates each checkpoint that comes into model_dir once, in the order of their steps.

  That of step 0 is left out.

  A checkpoint is not removed while it is read. Those that were evaluated before, by a process like
  this one, are not evaluated again, but where that process was killed before it had exported.

  Args:
    estimator: an Estimator.
    *eval_specs: EvalSpecs with names of their own; throttle_secs counts for none of them.
    max_steps: ends after the checkpoint of this step, or a later one; None for no such end.
    timeout_secs: ends when no checkpoint has come for so long.
    poll_secs: how often it looks.
    clock: seconds.
    sleep: waits for so many seconds.

  Returns:
    dict of EvalSpec name → metrics of the last checkpoint that was evaluated.

  Raises:
    SettingError: two EvalSpecs have one name, two exporters have one folder, or no EvalSpec is
      given.
  """
  if not eval_specs:
    raise errors.SettingError(
      "evaluate_continuously: there is nothing to evaluate: give an EvalSpec."
    )
  evaluations = schedule.Evaluations(estimator, eval_specs, clock)
  last_time, last_step = clock(), 0
  said_at = float("-inf")  # when it last said that it waits
  seen: set[int] = set()
  while max_steps is None or last_step < max_steps:
    steps = estimator.checkpoint_steps()
    seen.intersection_update(steps)  # a training that went back comes by a step once more
    new = [step for step in steps if step and step not in seen]
    for step in new:
      seen.add(step)
      evaluations.once(step)
      last_step = step
    if new:
      last_time, said_at = clock(), float("-inf")
    elif clock() - last_time >= timeout_secs:
      logging.warning(
        "No checkpoint has come into %s for %.0f s: the evaluations end at step %d.",
        estimator.model_dir,
        timeout_secs,
        last_step,
      )
      break
    else:
      if clock() - said_at >= _SECONDS_BETWEEN_SAYING:
        said_at = clock()
        logging.info(
          "Waiting for a checkpoint%s in %s: %.0f s more at the longest (run.eval_timeout_secs).",
          f" after step {last_step}" if last_step else "",
          estimator.model_dir,
          timeout_secs - (said_at - last_time),
        )
      sleep(poll_secs)
  evaluations.tell_exporters()
  return evaluations.results
