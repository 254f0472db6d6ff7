"""Trains and evaluates each checkpoint in one process.

Example:
    best = BestExporter("accuracy", "max")
    eval_spec = EvalSpec(eval_input_fn, exporters=[best])
    train_and_evaluate(estimator, TrainSpec(train_input_fn, max_steps=1000), eval_spec)
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from trainer.evaluation import continuous, schedule
from trainer.evaluation.eval_spec import EvalSpec
from trainer.hooks import hook_list
from trainer.hooks.estimator_protocol import Estimator
from trainer.loop import preemption
from trainer.outputs import exporters as exporters_lib
from trainer.programs import loop_input
from trainer.settings import setting_types


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
  estimator: Estimator,
  train_spec: TrainSpec,
  *eval_specs: EvalSpec,
  clock: Callable[[], float] = time.monotonic,
) -> dict[str | None, dict[str, Any]]:
  """Trains to max_steps and evaluates on the way and at the end.

  It evaluates at the end, even if the training was complete before.

  On the machines of a TF_CONFIG, the task "evaluator" evaluates the checkpoints of the others, and
  the others only train.

  If a process dies between a checkpoint and the end of its evaluation, the next call evaluates this
  checkpoint before it resumes the training. So the evaluations, their stops and their exports equal
  an undisturbed training's. If the input had ended, the next process does not train; a second call
  in the same process reads the input once more.

  Args:
    estimator: an Estimator.
    train_spec: a TrainSpec. After each evaluation, a hook with `evaluated(step, name, metrics,
      estimator)` may stop the training. It receives a pending evaluation of an earlier process
      after `begin`.
    *eval_specs: EvalSpecs with names of their own.
    clock: seconds.

  Returns:
    dict of EvalSpec name → metrics of the last checkpoint.

  Raises:
    SettingError: two EvalSpecs have one name, or two exporters one folder.
  """
  evaluations = schedule.ScheduledEvaluations(estimator, eval_specs, train_spec.hooks, clock)
  if estimator.device.role == "evaluator":
    return continuous.evaluate_continuously(estimator, *eval_specs, max_steps=train_spec.max_steps)
  if estimator.device.has_evaluator:
    _train(estimator, train_spec, None)
  else:
    prepare_exports(estimator, eval_specs)
    with estimator.hold_model_dir():  # Also at the last evaluation and its exports.
      with preemption.explain_interrupt(
        "in a pending evaluation of an earlier process; the same command resumes it"
      ):
        evaluations.evaluate_pending()
      _train(estimator, train_spec, evaluations)
      with preemption.explain_interrupt(
        "in the last evaluation, after the training's last checkpoint; the same command resumes "
        "the evaluations"
      ):
        evaluations.finish()
  _completed.add(estimator.model_dir)
  hook_list.HookList(train_spec.hooks, estimator).finished()
  return evaluations.results


def prepare_exports(estimator: Estimator, eval_specs: Sequence[EvalSpec]) -> None:
  """Tries the exports of a training before it begins; a second call does nothing.

  Raises:
    OctetError: an export would refuse the model.
  """
  exporters = [exporter for spec in eval_specs for exporter in spec.exporters]
  if exporters and estimator.device.is_chief:
    # The process of the check imports TensorFlow, for seconds, while the training runs: so the
    # first export waits less. An exporter of a program's own class may export anything.
    own = [each for each in exporters if isinstance(each, exporters_lib.Exporter)]
    estimator.prepare_export([each.serving_input_receiver_fn for each in own])


def _train(estimator, train_spec, evaluations):
  estimator.train(
    train_spec.input_fn,
    hooks=list(train_spec.hooks),
    max_steps=train_spec.max_steps,
    saving_listeners=list(train_spec.saving_listeners),
    evaluations=evaluations,
    ends_with_input=estimator.model_dir not in _completed,
  )


# The model_dirs of the calls that have ended in this process.
_completed: set[str] = set()
