"""A setting of a run: a report on each evaluation that tells more than the means.

Example:
    run.evaluation_report = @EvaluationReport()
    EvaluationReport.slices = ["country"]

For the files see `reporting.evaluation_reports`. A report predicts the evaluation set once more,
since a model_fn gives its predictions in that mode alone. The predictions come in the order of the
set on any number of cores, so that the figures are the same.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import formatting
from trainer.config import gin_names
from trainer.hooks.estimator_protocol import Estimator
from trainer.inputs import decodable
from trainer.judgement import class_figures, number_figures, observations, slices
from trainer.outputs import contact_sheet, options, predictions, samples
from trainer.programs import loop_input
from trainer.reporting import evaluation_reports, summaries
from trainer.reporting.evaluation_reports import CLASSES, NUMBERS
from trainer.settings import setting_types
from trainer.settings.kinds import Kind

_Share = Annotated[float, setting_types.Rule("a number between 0 and 1", lambda it: 0 < it < 1)]


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationReport:
  """Settings of a report on an evaluation.

  Attributes:
    every_evaluation: whether each evaluation of a training has a report, or the last one alone.
    slices: names of features, or of columns of a table. The report has figures of each value of a
      feature, or of ranges.
    worst: the number of worst predictions in the report.
    resamples: the number of resamples of the bootstrap, for the intervals.
    confidence: the confidence of the intervals.
    label: the name of the label, if labels are a dict of several.
    prediction: the name of the predicted class or number, if the model predicts several.
    class_names: the names of the classes in the order of their numbers; None for run.class_names.

  Raises:
    SettingError: a value is invalid.
  """

  every_evaluation: bool = False
  slices: Annotated[list[str] | tuple[str, ...], "such as ['country']"] = ()
  worst: setting_types.Natural = 24
  resamples: setting_types.Count = 1000
  confidence: _Share = 0.95
  label: str | None = None
  prediction: str | None = None
  class_names: options.ClassNames | None = None

  def check(self, predicted: loop_input.LoopInput) -> None:
    """Checks, before anything runs, that the input and the model fit the report.

    Args:
      predicted: the evaluation's input, traced for predictions.

    Raises:
      SettingError: the report needs a missing label, prediction or feature.
    """
    specification = predicted.traced.step.specification.predictions
    # A group is [cores, batch, ...] and the tensors of a core are [batch, ...].
    element = tf.nest.map_structure(lambda spec: _zeros(spec, 2), predicted.dataset.element_spec[0])
    example = tf.nest.map_structure(lambda tensor: _zeros(tensor, 1), specification)
    raw = decodable.raw_of(predicted.dataset)
    collections.deque(self._observations(raw).watch([(example, element)]), maxlen=0)

  def write(
    self,
    estimator: Estimator,
    input_fn: Callable | loop_input.LoopInput,
    *,
    step: int,
    checkpoint_path: str | None = None,
    name: str | None = None,
    steps: int | None = None,
  ) -> dict[str, Any] | None:
    """Predicts the evaluation set, and writes the report.

    Args:
      estimator: the Estimator.
      input_fn: the eval input_fn, or its LoopInput.
      step: the checkpoint's step.
      checkpoint_path: the checkpoint; None for the newest.
      name: of the evaluation, or None.
      steps: global batches of the evaluation; None for the whole set.

    Returns:
      The report; None on all workers but the chief.

    Raises:
      SettingError: labels, predictions or features do not fit the report.
      InputError: there is no example, or a label is negative.
      OutputError: it cannot write a file.
    """
    predicted = estimator.trace(Kind.PREDICT, input_fn)
    raw = decodable.raw_of(predicted.dataset)
    pairs = estimator.predict(predicted, checkpoint_path=checkpoint_path, with_examples=True)
    if steps is not None:
      pairs = itertools.islice(pairs, steps * estimator.batch_sizes()[Kind.EVAL].global_size)
    if not estimator.device.is_chief:
      collections.deque(pairs, maxlen=0)  # Hosts of XLA devices compute each batch together.
      return None
    found, worst = self._observations(raw), samples.worst(self.worst, _badness)
    # Read all pairs and keep none: the set's images may not fit into memory.
    collections.deque(worst.watch(found.watch(pairs)), maxlen=0)
    arrays = found.arrays()
    if not len(arrays["label"]):
      raise errors.InputError("The eval input_fn gave no example to report on.")
    report = {
      "evaluation": name or "",
      "step": step,
      "kind": found.kind,
      "examples": len(arrays["label"]),
      "features": found.digest(),
      "confidence": self.confidence,
      "resamples": self.resamples,
      **self._figures(found, arrays),
      "slices": slices.describe(
        found.kind, arrays, found.slices, self.resamples, self.confidence, seed=1
      ),
      "gaps": raw.gaps if raw else {},
      "worst": [
        # The columns come last; a column "label" gives way.
        (row := self._row(number, observed)) | found.row(number) | row
        for number, (observed, _) in worst.taken()
      ],
    }
    if gaps := raw and raw.describe_gaps()[0]:
      report["notes"].append(f"Values that are missing, or unknown to the training: {gaps}.")
    path = evaluation_reports.write(estimator.model_dir, report, arrays)
    self._draw_worst(path.removesuffix(".json"), worst.taken(), found.kind)
    self._show(report, estimator.evaluation_dir(name))
    logging.info("%s", _shown(report, path))
    return report

  def _observations(self, raw):
    rows = raw.rows if raw else {}
    return observations.Observations(self.label, self.prediction, self.slices, rows)

  def _figures(self, found, arrays):
    how = dict(resamples=self.resamples, confidence=self.confidence, seed=1)
    if found.kind == NUMBERS:
      return number_figures.describe(arrays, **how)
    names = self.class_names or ()
    return class_figures.ClassFigures(arrays, names, classes=found.classes, **how).describe()

  def _row(self, number, observed):
    """Returns the table's row of an example."""
    if np.isnan(observed.of_label) and observed.probabilities is None:
      shares = {}
    else:
      shares = {
        "probability": _rounded(observed.confidence),
        "of the label": _rounded(observed.of_label),
      }
    is_class = isinstance(observed.label, int)
    shown = self._class_name if is_class else _rounded
    return {
      "example": number,
      "label": shown(observed.label),
      "predicted": shown(observed.predicted),
      **shares,
    }

  def _class_name(self, number):
    names = self.class_names or ()
    if number == class_figures.NO_CLASS:
      return "nothing"
    return names[number] if number < len(names) else str(number)

  def _draw_worst(self, path, taken, kind):
    images = [contact_sheet.image_of(example[0]) for _, (_, example) in taken]
    if kind == CLASSES and images and images[0] is not None:
      captions = [self._caption(observed) for _, (observed, _) in taken]
      contact_sheet.write(f"{path}.png", images, captions)

  def _caption(self, observed):
    name = self._class_name(observed.predicted)
    if np.isfinite(observed.confidence):
      name += f" {predictions.percent(observed.confidence)}"
    right = observed.label == observed.predicted
    label = [] if right else [f"is {self._class_name(observed.label)}"]
    return contact_sheet.Caption([name, *label], right)

  def _show(self, report, folder):
    """Writes the figures for TensorBoard."""
    values = {name: estimate["value"] for name, estimate in report["metrics"].items()}
    summaries.Writer(folder).scalars(
      report["step"],
      {f"report/{name}": value for name, value in values.items() if value is not None},
    )


def _zeros(spec, axes):
  """Returns zeros of a spec's dtype and shape without its first axes; unknown sizes are 1."""
  rank = spec.shape.rank
  shape = () if rank is None else [size or 1 for size in spec.shape.as_list()[axes:]]
  return np.zeros(shape, spec.dtype.as_numpy_dtype)


def _badness(pair):
  """Returns a larger number for a worse prediction: any wrong class is worse than a right one."""
  observed, _ = pair
  if isinstance(observed.label, int):
    return float(observed.predicted != observed.label) + 1 - np.nan_to_num(observed.of_label)
  return abs(observed.predicted - observed.label)


def _rounded(value):
  return float(formatting.five_digits(value)) if np.isfinite(value) else None


def _shown(report: dict[str, Any], path: str) -> str:
  """Returns the report in a few lines of the log."""
  figures = ", ".join(_interval(name, value) for name, value in report["metrics"].items())
  lines: Iterable[str] = [report["sentence"]] if "sentence" in report else []
  return "\n".join([f"Report on {report['examples']:,} examples: {figures}", *lines, path])


def _interval(name, estimate):
  value, low, high = (estimate[key] for key in ("value", "low", "high"))
  if value is None:
    return f"{name} not defined"
  return f"{name} = {value:.4g}" + (f" [{low:.4g}, {high:.4g}]" if low is not None else "")
