"""EvalSpec: what a run evaluates, and how often."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from trainer import errors
from trainer.config import gin_names
from trainer.judgement import evaluation_report
from trainer.outputs import exporters as exporters_lib
from trainer.programs import loop_input
from trainer.settings import setting_types


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class EvalSpec:
  """What to evaluate, and how often; see Estimator.evaluate.

  Attributes:
    steps: global batches; None for the whole set.
    name: keeps the summaries of several evaluations apart.
    throttle_secs: the least time between two evaluations; the last checkpoint is always evaluated.
      After a restart it is counted from the last evaluation of this name that metrics.jsonl tells
      of, by the wall clock: the time in which no process ran counts as well. If the clock was set
      back since, the next checkpoint is evaluated.
    exporters: see trainer.outputs.exporters; asked after each evaluation.
    report: an EvaluationReport, or None; see trainer.judgement.

  Raises:
    SettingError: a value that cannot work.
  """

  input_fn: loop_input.InputFn
  steps: setting_types.Count | None = None
  name: setting_types.InnerPath | None = None
  hooks: Sequence = ()
  throttle_secs: setting_types.NotNegative = 0
  exporters: Sequence = ()
  report: Annotated[evaluation_report.EvaluationReport | None, "such as @EvaluationReport()"] = None


def check(eval_specs: Sequence[EvalSpec]) -> None:
  """Checks that EvalSpecs can be used together.

  Raises:
    SettingError: one is no EvalSpec, two have one name, or two exporters one folder.
  """
  wrong = [spec for spec in eval_specs if not isinstance(spec, EvalSpec)]
  if wrong:
    raise errors.SettingError(
      f"{wrong[0]!r} is no EvalSpec; in gin, run.eval_specs is a list such as [@test/EvalSpec()]."
    )
  names = [spec.name for spec in eval_specs]
  repeated = [name for name in names if names.count(name) > 1]
  if repeated:
    raise errors.SettingError(
      f"{len(repeated)} EvalSpecs have the name {repeated[0]!r}; give each its own."
    )
  exporters_lib.check_outputs(
    (exporter, f"the EvalSpec {spec.name!r}" if spec.name else "the EvalSpec without a name")
    for spec in eval_specs
    for exporter in spec.exporters
  )
