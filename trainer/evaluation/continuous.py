"""Evaluates beside a training of another process.

Example:
    evaluate_continuously(estimator, EvalSpec(eval_input_fn), max_steps=1000)
"""

import time
from collections.abc import Callable
from typing import Any

from absl import logging

from trainer import errors
from trainer.evaluation import schedule
from trainer.evaluation.eval_spec import EvalSpec
from trainer.hooks.estimator_protocol import Estimator

_SECONDS_BETWEEN_LINES = 60.0  # Seconds that evaluate_continuously waits.


def evaluate_continuously(
  estimator: Estimator,
  *eval_specs: EvalSpec,
  max_steps: int | None = None,
  timeout_secs: float = 3600.0,
  poll_secs: float = 1.0,
  clock: Callable[[], float] = time.monotonic,
  sleep: Callable[[float], None] = time.sleep,
) -> dict[str | None, dict[str, Any]]:
  """Evaluates each new checkpoint in model_dir once, in the order of their steps.

  It skips the checkpoint of step 0.

  It holds a lease on the checkpoint that it reads. It skips a checkpoint that an earlier process
  has evaluated, unless that process died before its exports.

  Args:
    estimator: an Estimator.
    *eval_specs: EvalSpecs with different names; it ignores their throttle_secs.
    max_steps: end after the checkpoint of this step, or a later one; None for no such end.
    timeout_secs: end after this time without a new checkpoint.
    poll_secs: seconds between two looks at the folder.
    clock: returns seconds.
    sleep: waits for so many seconds.

  Returns:
    dict of EvalSpec name → metrics of the last evaluated checkpoint.

  Raises:
    SettingError: there is no EvalSpec, or two EvalSpecs have one name, or two exporters one folder.
  """
  if not eval_specs:
    raise errors.SettingError(
      "evaluate_continuously: there is nothing to evaluate: give an EvalSpec."
    )
  evaluations = schedule.ScheduledEvaluations(estimator, eval_specs, clock=clock)
  last_time, last_step = clock(), 0
  logged_at = float("-inf")  # The time of the last log line about waiting.
  seen: set[int] = set()
  while max_steps is None or last_step < max_steps:
    steps = estimator.checkpoint_steps()
    seen.intersection_update(steps)  # A training that went back passes a step once more.
    new = [step for step in steps if step and step not in seen]
    for step in new:
      seen.add(step)
      evaluations.evaluate_new(step)
      last_step = step
    if new:
      last_time, logged_at = clock(), float("-inf")
    elif clock() - last_time >= timeout_secs:
      logging.warning(
        "No checkpoint has come into %s for %.0f s: the evaluations end at step %d.",
        estimator.model_dir,
        timeout_secs,
        last_step,
      )
      break
    else:
      if clock() - logged_at >= _SECONDS_BETWEEN_LINES:
        logged_at = clock()
        logging.info(
          "Waiting for a checkpoint%s in %s: %.0f s more at the longest (run.eval_timeout_secs).",
          f" after step {last_step}" if last_step else "",
          estimator.model_dir,
          timeout_secs - (logged_at - last_time),
        )
      sleep(poll_secs)
  evaluations.export_final()
  return evaluations.results
