"""EvalSpec: an evaluation set of a run, and its cadence."""

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
  """An evaluation set, and its cadence; see Estimator.evaluate.

  Attributes:
    steps: global batches; None for the whole set.
    name: separates the summaries of several evaluations.
    throttle_secs: the shortest time between two evaluations; the last checkpoint always has one.
      After a restart the time counts from the last evaluation of this name in metrics.jsonl, by the
      wall clock, including time without a process. If somebody has set the clock back since, the
      run evaluates the next checkpoint.
    exporters: see trainer.outputs.exporters; called after each evaluation.
    report: an EvaluationReport, or None; see trainer.judgement.

  Raises:
    SettingError: a value cannot work.
  """

  input_fn: loop_input.InputFn
  steps: setting_types.Count | None = None
  name: setting_types.InnerPath | None = None
  hooks: Sequence = ()
  throttle_secs: setting_types.NotNegative = 0
  exporters: Sequence = ()
  report: Annotated[evaluation_report.EvaluationReport | None, "such as @EvaluationReport()"] = None


def check(eval_specs: Sequence[EvalSpec]) -> None:
  """Checks that EvalSpecs work together.

  Raises:
    SettingError: an item is not an EvalSpec, two have one name, or two exporters share a folder.
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
