"""Compares two models by their predictions for the same examples: which differences are noise?

    found = differences.compare([Run("out/a")], [Run("out/b", step=1000)])
    found.differences["accuracy"]    # Difference(first=0.87, second=0.8, low=-0.08, high=-0.06)

Each side is one run, or several runs that differ in their seeds alone.

- One run a side: a paired bootstrap (Efron and Tibshirani, 1993). Both sides have the same
  resamples, so examples that are hard for both models do not count as noise.
- Several runs a side: the interval covers the seeds too. The variance of the difference of the two
  means has two parts: the variance of the paired bootstrap; and the variance of the figure between
  the runs of a side, pooled over the sides, divided by the number of runs of each side.
  Satterthwaite's approximation gives the degrees of freedom of Student's t.
"""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer import errors
from trainer.judgement import bootstrap, class_figures, number_figures
from trainer.reporting import evaluation_reports


@dataclasses.dataclass(frozen=True)
class Run:
  """A run with a report on an evaluation.

  Attributes:
    model_dir: its folder.
    step: the step of the checkpoint; None for the newest checkpoint with a report.
  """

  model_dir: str
  step: int | None = None

  def __str__(self) -> str:
    return self.model_dir if self.step is None else f"{self.model_dir}@{self.step}"


@dataclasses.dataclass(frozen=True)
class Difference:
  """A figure of both sides.

  Attributes:
    first: the mean over the runs of the first side.
    second: the mean over the runs of the second side.
    low: the lower end of the interval of second - first.
    high: the upper end of that interval.
  """

  first: float
  second: float
  low: float
  high: float

  @property
  def is_noise(self) -> bool:
    """Whether the interval contains 0."""
    return not (self.low > 0 or self.high < 0)


@dataclasses.dataclass(frozen=True)
class Comparison:
  """The result of `compare`.

  Attributes:
    examples: the number of examples.
    runs: the number of runs of each side.
    differences: name of a figure → its Difference.
  """

  examples: int
  runs: tuple[int, int]
  differences: dict[str, Difference]


def compare(
  first: Sequence[Run],
  second: Sequence[Run],
  evaluation: str = "",
  resamples: int = 1000,
  confidence: float = 0.95,
  seed: int = 1,
) -> Comparison:
  """Compares two sides.

  Args:
    first: the runs of the first side.
    second: the runs of the second side.
    evaluation: the name of the evaluation, or "".
    resamples: the number of resamples of the bootstrap.
    confidence: the confidence of the intervals.
    seed: the seed of the bootstrap.

  Raises:
    SettingError: a run has no report, or two runs have evaluated different examples.
    FileDamagedError: a file is damaged.
  """
  loaded = [[_load(run, evaluation) for run in side] for side in (first, second)]
  everyone = [each for side in loaded for each in side]
  for other in everyone[1:]:
    _check_pair(everyone[0], other)
  examples = len(everyone[0].arrays["label"])
  # A paired bootstrap needs the same resamples for each run, so the same seed.
  drawn = [[_drawn(each, resamples, seed) for each in side] for side in loaded]
  flat = [each for side in drawn for each in side]
  names = [name for name in flat[0] if all(name in each for each in flat) and name != "bias"]
  found = {
    name: _difference([[each[name] for each in side] for side in drawn], confidence, examples)
    for name in names
  }
  return Comparison(examples, (len(first), len(second)), found)


@dataclasses.dataclass(frozen=True)
class _Loaded:
  run: Run
  report: Mapping[str, Any]
  arrays: Mapping[str, np.ndarray]


def _load(run, evaluation):
  steps = evaluation_reports.steps_of(run.model_dir).get(evaluation, [])
  step = max(steps, default=None) if run.step is None else run.step
  if step not in steps:
    known = f": the run has reports of the steps {', '.join(map(str, steps))}" if steps else ""
    named = f" {evaluation!r}" if evaluation else ""
    folder = shlex.quote(run.model_dir)
    raise errors.SettingError(
      f"{run} has no report of the evaluation{named}{known}. A run with run.evaluation_report = "
      "@EvaluationReport() writes them. For an existing run:\n"
      f"  python -m trainer.main --gin_file={folder}/config.gin --model_dir={folder} "
      "--mode=evaluate --gin_bindings='run.evaluation_report = @EvaluationReport()'"
    )
  report = evaluation_reports.read(
    f"{evaluation_reports.stem(run.model_dir, evaluation, step)}.json"
  )
  assert report is not None
  return _Loaded(run, report, evaluation_reports.observed(run.model_dir, evaluation, step))


def _check_pair(one, other):
  kinds = [each.report["kind"] for each in (one, other)]
  if kinds[0] != kinds[1]:
    raise errors.SettingError(
      f"Cannot compare them: {one.run} predicts {kinds[0]}, and {other.run} predicts {kinds[1]}."
    )
  labels = [each.arrays["label"] for each in (one, other)]
  if len(labels[0]) != len(labels[1]) or not np.array_equal(*labels, equal_nan=True):
    raise errors.SettingError(
      f"The evaluation of {one.run} had {len(labels[0]):,} examples, that of {other.run} "
      f"{len(labels[1]):,}, with other labels: evaluate both on the same set."
    )


def _drawn(loaded, resamples, seed):
  """Returns figure → (its value, its values in the resamples)."""
  arrays = loaded.arrays
  figures: bootstrap.Figures
  if loaded.report["kind"] == evaluation_reports.NUMBERS:
    figures = number_figures.Figures(arrays)
  else:
    # The figures that `compare` takes do not depend on further classes without examples.
    classes = 1 + int(max(arrays[name].max() for name in ("label", "predicted")))
    figures = class_figures.Figures(arrays, classes)
  examples = len(arrays["label"])
  drawn = bootstrap.draws(figures, examples, resamples, seed)
  return {name: (float(value), drawn[name]) for name, value in figures(np.ones(examples)).items()}


def _difference(sides, confidence, examples):
  """Returns the Difference of a figure.

  Args:
    sides: for each side, (value, resamples) of each run.
    confidence: the confidence of the interval.
    examples: the number of examples.
  """
  values = [np.array([value for value, _ in side]) for side in sides]
  first, second = (float(each.mean()) for each in values)
  resampled = [np.mean([drawn for _, drawn in side], axis=0) for side in sides]
  paired = resampled[1] - resampled[0]
  if all(len(side) == 1 for side in sides):
    low, high = bootstrap.interval(paired, confidence)
    return Difference(first, second, float(low), float(high))
  from scipy import stats

  freedom = sum(len(each) - 1 for each in values)
  between = sum(((each - each.mean()) ** 2).sum() for each in values) / freedom
  of_seeds = between * sum(1 / len(each) for each in values)
  of_examples = float(np.nanvar(paired))
  whole = of_seeds + of_examples
  parts = of_seeds**2 / freedom + of_examples**2 / max(1, examples - 1)
  reach = (
    float(stats.t.ppf((1 + confidence) / 2, whole**2 / parts)) * np.sqrt(whole) if whole else 0.0
  )
  return Difference(first, second, second - first - reach, second - first + reach)
