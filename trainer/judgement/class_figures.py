"""Figures of a classifier: its confusions, its quality at each class, and how sure it is.

    ClassFigures(observed, names, classes=10, resamples=1000, ...).describe()

Definitions:

- precision, recall and F1 of a class: as in scikit-learn. A division by 0 gives None: the recall of
  a class without examples, and the precision of a class without predictions.
- macro_f1: the mean of F1 over the classes with examples. An F1 of None counts as 0.
- log_loss: the mean of -log of the label's probability. Probabilities below 1e-15 count as 1e-15.
- ece: the expected calibration error, as in Guo et al., "On Calibration of Modern Neural Networks"
  (ICML 2017), equation 3. The probability of the predicted class selects one of several bins of
  equal width. The error is the mean of |accuracy - mean probability| of the examples' bins.
- roc_auc, average_precision: as in scikit-learn, of two classes alone. Class 1 is the positive one.
- threshold: of two classes alone, the probability of class 1 from which on its F1 is largest.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer.judgement import bootstrap

# The predicted class if the prediction is not finite. No label equals it, so it counts as wrong.
NO_CLASS = -1

BINS = 15  # The number in Guo et al.

_MOST_ROWS = 100  # Classes in the table, each with intervals.
_MOST_SHOWN = 20  # Classes of the matrix.
_LARGEST = 20  # Confusions in the list.
_NAMED = 3  # Confusions in the sentence.
_LEAST_SHARE = 1e-15  # The label's least probability, for the logarithm.


@dataclasses.dataclass(frozen=True)
class ClassFigures:
  """The figures of a classifier.

  Attributes:
    observed: the result of Observations.arrays.
    names: the names of the classes, in the order of their numbers; perhaps fewer than the classes.
    classes: the number of classes of the model. Labels may have larger numbers.
    resamples: the number of resamples of the bootstrap.
    confidence: the confidence of the intervals.
    seed: the seed of the bootstrap.
  """

  observed: Mapping[str, np.ndarray]
  names: Sequence[str]
  classes: int
  resamples: int
  confidence: float
  seed: int

  @functools.cached_property
  def count(self) -> int:
    """The number of classes."""
    arrays = self.observed["label"], self.observed["predicted"]
    return max(self.classes, len(self.names), *(int(array.max()) + 1 for array in arrays))

  def name(self, number: int) -> str:
    """Returns the name of a class; its number if it has none."""
    if number == NO_CLASS:
      return "nothing"
    return self.names[number] if number < len(self.names) else str(number)

  def describe(self) -> dict[str, Any]:
    """Returns the figures for JSON, see `reporting.evaluation_reports`."""
    shown = self._rows_shown()
    figures = Figures(self.observed, self.count, shown)
    estimates = bootstrap.estimates(
      figures,
      len(self.observed["label"]),
      self.resamples,
      self.confidence,
      self.seed,
      reflected=["ece"],
    )
    of_classes = [estimates.pop(name) for name in ("precision", "recall", "f1")]
    calibration = estimates.get("ece") and {"ece": estimates["ece"], **self._calibration(figures)}
    largest = self._largest()
    threshold = self._threshold() if figures.has_scores else None
    advice = (
      " The F1 of {class} is largest, {f1:.3g}, from a probability of {probability:.3g} on: "
      "precision {precision:.3g}, recall {recall:.3g}."
    )
    return {
      "metrics": estimates,
      "sentence": _sentence(largest) + (advice.format(**threshold) if threshold else ""),
      "threshold": threshold,
      "classes": [
        {
          "class": int(number),
          "name": self.name(number),
          "examples": int(self._examples[number]),
          "predicted": int(self._predicted[number]),
          "precision": precision,
          "recall": recall,
          "f1": f1,
        }
        for number, precision, recall, f1 in zip(shown, *of_classes, strict=True)
      ],
      "confusions": self._matrix() | {"largest": largest},
      "calibration": calibration,
      "notes": self._notes(shown),
    }

  def _calibration(self, figures):
    counts, confidence, right = figures.in_bins(np.ones(len(self.observed["label"])))
    return {
      "bins": [
        {
          "low": index / BINS,
          "high": (index + 1) / BINS,
          "examples": int(counts[index]),
          "confidence": float(confidence[index] / counts[index]),
          "accuracy": float(right[index] / counts[index]),
        }
        for index in np.flatnonzero(counts)
      ],
      "examples": int(counts.sum()),
    }

  def _threshold(self):
    """Returns the threshold of class 1 and its figures; None without examples of both classes."""
    from sklearn import metrics  # This takes half a second to import.

    score = self.observed["score"]
    known = np.isfinite(score)
    label = self.observed["label"][known]
    if len(np.unique(label)) < 2:
      return None
    precision, recall, thresholds = metrics.precision_recall_curve(label, score[known])
    f1 = np.nan_to_num(bootstrap.share(2 * precision * recall, precision + recall))[:-1]
    best = int(f1.argmax())
    figures = thresholds[best], precision[best], recall[best], f1[best]
    names = ("probability", "precision", "recall", "f1")
    return {"class": self.name(1)} | dict(zip(names, map(float, figures), strict=True))

  @functools.cached_property
  def _examples(self):
    return np.bincount(self.observed["label"], minlength=self.count)

  @functools.cached_property
  def _predicted(self):
    predicted = self.observed["predicted"]
    return np.bincount(predicted[predicted != NO_CLASS], minlength=self.count)

  def _largest(self):
    """Returns the most frequent confusions."""
    wrong = self.observed["label"] != self.observed["predicted"]
    pairs = np.stack([self.observed["label"], self.observed["predicted"]], 1)[wrong]
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    return [
      {
        "label": self.name(int(found[place, 0])),
        "predicted": self.name(int(found[place, 1])),
        "count": int(counts[place]),
        "of": int(self._examples[found[place, 0]]),
      }
      for place in np.argsort(-counts, kind="stable")[:_LARGEST]
    ]

  def _rows_shown(self):
    """Returns the classes of the table: all, or the ones with examples and the lowest F1."""
    if self.count <= _MOST_ROWS:
      return np.arange(self.count)
    occur = np.flatnonzero(self._examples + self._predicted)
    right = np.bincount(
      self.observed["label"][self.observed["label"] == self.observed["predicted"]],
      minlength=self.count,
    )
    f1 = 2 * right[occur] / (self._examples + self._predicted)[occur]
    return np.sort(occur[np.argsort(f1, kind="stable")[:_MOST_ROWS]])

  def _matrix(self):
    """Counts label (rows) and predicted class (columns) of the most confused classes."""
    from sklearn import metrics  # This takes half a second to import.

    label, predicted = self.observed["label"], self.observed["predicted"]
    shown = np.arange(self.count)
    if self.count > _MOST_SHOWN:
      wrong = label != predicted
      both = np.bincount(label[wrong], minlength=self.count)
      both += np.bincount(predicted[wrong & (predicted != NO_CLASS)], minlength=self.count)
      shown = np.sort(np.argsort(-both, kind="stable")[:_MOST_SHOWN])
    counts = metrics.confusion_matrix(label, predicted, labels=shown)
    others = self._examples[shown] - counts.sum(axis=1)
    has_others = bool(others.any())
    return {
      "classes": shown.tolist(),
      "names": [self.name(number) for number in shown],
      "has_others": has_others,
      "counts": (np.column_stack([counts, others]) if has_others else counts).tolist(),
    }

  def _notes(self, shown):
    notes = []
    if self.count > _MOST_ROWS:
      notes.append(
        f"Of {self.count:,} classes the table shows the {len(shown)} with the lowest F1 among the "
        "classes with examples."
      )
    if self.count > _MOST_SHOWN:
      notes.append(
        f"Of {self.count:,} classes the matrix shows the {_MOST_SHOWN} with the most confusions."
      )
    empty = np.flatnonzero(self._examples == 0)
    if len(empty):
      named = ", ".join(map(self.name, empty[:_NAMED])) + ", …" * (len(empty) > _NAMED)
      notes.append(
        f"{len(empty):,} classes have no example and so no recall: {named}."
        if len(empty) > 1
        else f"The class {named} has no example and so no recall."
      )
    lost = int((self.observed["predicted"] == NO_CLASS).sum())
    if lost:
      notes.append(
        f"{lost:,} of {len(self.observed['label']):,} predictions are NaN or infinite: they count "
        "as wrong, and neither for the log loss nor for the calibration."
      )
    if not np.isfinite(self.observed["confidence"]).any():
      notes.append(
        'There is no calibration: the report has no finite "probabilities" of the class. If the '
        'model_fn predicts them, EvaluationReport.prediction = "probabilities" selects them.'
      )
    return notes


class Figures:
  """Computes the figures of a classifier, see `bootstrap.Figures`.

  Args:
    observed: the result of Observations.arrays.
    classes: the number of classes.
    shown: the classes of "precision", "recall" and "f1"; None leaves these out.

  Attributes:
    has_scores: whether there are two classes, and probabilities of class 1.
  """

  def __init__(
    self, observed: Mapping[str, np.ndarray], classes: int, shown: np.ndarray | None = None
  ) -> None:
    self._label, self._predicted = observed["label"], observed["predicted"]
    self._classes, self._shown = classes, shown
    self._right = self._label == self._predicted
    self._is_class = self._predicted != NO_CLASS
    self._has_label = np.isfinite(observed["of_label"])
    self._losses = -np.log(np.maximum(observed["of_label"][self._has_label], _LEAST_SHARE))
    confidence = observed["confidence"]
    self._is_sure = np.isfinite(confidence)
    self._confidence = confidence[self._is_sure]
    # (0, 1/BINS] is the first bin, and 0 belongs to it too.
    bins = np.clip(np.ceil(self._confidence * BINS) - 1, 0, BINS - 1)
    self._bins = bins.astype(np.int64)
    score = observed.get("score", np.full(len(self._label), np.nan))  # Not in reports before 0.2.
    self._has_score = np.isfinite(score) & (classes == 2)
    self.has_scores = bool(self._has_score.any())
    # The largest score has rank 0.
    _, self._rank = np.unique(-score[self._has_score], return_inverse=True)

  def __call__(self, times: np.ndarray) -> dict[str, Any]:
    """Returns name → figure, for how often each example counts."""
    share = bootstrap.share
    right, examples, predicted = (
      np.bincount(of[where], times[where], self._classes)
      for of, where in (
        (self._label, self._right),
        (self._label, slice(None)),
        (self._predicted, self._is_class),
      )
    )
    f1 = share(2 * right, examples + predicted)
    present = examples > 0
    found = {
      "accuracy": right.sum() / times.sum(),
      "macro_f1": share(np.nan_to_num(f1[present]).sum(), present.sum()),
    }
    if self._is_sure.any():
      known = times[self._has_label]
      counts, confidence, right_ones = self.in_bins(times)
      found |= {
        "log_loss": share((self._losses * known).sum(), known.sum()),
        "ece": share(np.abs(right_ones - confidence).sum(), counts.sum()),
      }
    if self.has_scores:
      found |= self._areas(times[self._has_score], self._label[self._has_score])
    if self._shown is not None:
      shown = self._shown
      found |= {
        "precision": share(right[shown], predicted[shown]),
        "recall": share(right[shown], examples[shown]),
        "f1": f1[shown],
      }
    return found

  def _areas(self, times, label):
    # scikit-learn's functions take some milliseconds, and there are a thousand resamples.
    positives, everyone = np.bincount(self._rank, times * label), np.bincount(self._rank, times)
    negatives, right = everyone - positives, positives.cumsum()
    precisions = right / np.maximum(everyone.cumsum(), 1)
    # A pair with equal scores counts half.
    of_pairs = ((right - positives / 2) * negatives).sum()
    return {
      "roc_auc": bootstrap.share(of_pairs, positives.sum() * negatives.sum()),
      "average_precision": bootstrap.share((precisions * positives).sum(), positives.sum()),
    }

  def in_bins(self, times: np.ndarray) -> list[np.ndarray]:
    """Returns of each bin its examples, the sum of their probabilities, and its right examples."""
    times = times[self._is_sure]
    weights = (times, times * self._confidence, times * self._right[self._is_sure])
    return [np.bincount(self._bins, each, BINS) for each in weights]


def _sentence(largest):
  """Names the largest confusions."""
  if not largest:
    return "The model mistakes no example for another class."
  named = [
    f"{each['label']} taken for {each['predicted']} ({each['count']:,} of {each['of']:,})"
    for each in largest[:_NAMED]
  ]
  if len(named) == 1:
    return f"The only confusion: {named[0]}."
  return f"The largest confusions: {', '.join(named[:-1])} and {named[-1]}."
