"""Figures of a classifier: its confusions, its quality at each class, and how sure it is.

    ClassFigures(observed, names, classes=10, bins=15, resamples=1000, ...).describe()

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
    bins: the number of bins of the calibration.
    resamples: the number of resamples of the bootstrap.
    confidence: the confidence of the intervals.
    seed: the seed of the bootstrap.
  """

  observed: Mapping[str, np.ndarray]
  names: Sequence[str]
  classes: int
  bins: int
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
    rows = Rows(self.observed, self.count, self.bins)
    shown = self._rows_shown()
    estimates = bootstrap.estimates(
      rows.matrix,
      lambda sums: rows.figures(sums, shown),
      self.resamples,
      self.confidence,
      self.seed,
      reflected=["ece"],
    )
    of_classes = [estimates.pop(name) for name in ("precision", "recall", "f1")]
    calibration = estimates.get("ece") and {
      "ece": estimates["ece"],
      "bins": rows.calibration_bins(),
      "examples": int(np.isfinite(self.observed["confidence"]).sum()),
    }
    largest = self._largest()
    threshold = self._threshold() if rows.has_scores else None
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

  @functools.cached_property
  def _pairs(self):
    """(label, predicted, examples) of each pair that occurs."""
    pairs = np.stack([self.observed["label"], self.observed["predicted"]], 1)
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    return found[:, 0], found[:, 1], counts

  def _wrong(self):
    """Returns (label, predicted, examples) of each wrong pair, the most frequent first."""
    label, predicted, counts = self._pairs
    order = np.argsort(-counts, kind="stable")
    return [
      (int(label[place]), int(predicted[place]), int(counts[place]))
      for place in order
      if label[place] != predicted[place]
    ]

  def _largest(self):
    return [
      {
        "label": self.name(label),
        "predicted": self.name(predicted),
        "count": count,
        "of": int(self._examples[label]),
      }
      for label, predicted, count in self._wrong()[:_LARGEST]
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
    shown = list(range(self.count))
    if self.count > _MOST_SHOWN:
      label, predicted, counts = self._pairs
      wrong = label != predicted
      both = np.bincount(label[wrong], counts[wrong], self.count)
      is_class = wrong & (predicted != NO_CLASS)
      both += np.bincount(predicted[is_class], counts[is_class], self.count)
      shown = sorted(int(place) for place in np.argsort(-both, kind="stable")[:_MOST_SHOWN])
    place = {number: index for index, number in enumerate(shown)}
    matrix = np.zeros([len(shown), len(shown) + 1], np.int64)  # The last column: all others.
    for label, predicted, count in zip(*self._pairs, strict=True):
      if label in place:
        matrix[place[label], place.get(predicted, len(shown))] += count
    has_others = bool(matrix[:, -1].any())
    return {
      "classes": shown,
      "names": [self.name(number) for number in shown],
      "has_others": has_others,
      "counts": (matrix if has_others else matrix[:, :-1]).tolist(),
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


class Rows:
  """Each example's part of the sums behind the figures of a classifier.

  Args:
    observed: the result of Observations.arrays.
    classes: the number of classes.
    bins: the number of bins of the calibration.

  Attributes:
    matrix: scipy.sparse [examples, columns].
    has_scores: whether there are two classes, and probabilities of class 1.
  """

  def __init__(self, observed: Mapping[str, np.ndarray], classes: int, bins: int) -> None:
    from scipy import sparse

    self._classes, self._bins = classes, bins
    label, predicted = observed["label"], observed["predicted"]
    confidence, of_label = observed["confidence"], observed["of_label"]
    right = (label == predicted).astype(np.float64)
    everyone = np.arange(len(label))
    is_class, is_sure = predicted != NO_CLASS, np.isfinite(confidence)
    has_label = np.isfinite(of_label)
    # (0, 1/bins] is the first bin, and 0 belongs to it too.
    bin_of = np.clip(np.ceil(confidence[is_sure] * bins) - 1, 0, bins - 1).astype(np.int64)
    # The columns: of each class its right, its labelled and its predicted examples; of each bin its
    # examples, confidences and right examples; of each score, the largest first, its examples of
    # class 1 and of class 0; then four sums over the whole set.
    score = observed.get("score", np.full(len(label), np.nan))  # Not in reports before 0.2.
    has_score = np.isfinite(score) & (classes == 2)
    self.has_scores = bool(has_score.any())
    unique, rank = np.unique(-score[has_score], return_inverse=True)
    first = np.cumsum([0, *[classes] * 3, *[bins] * 3, *[len(unique)] * 2])
    totals = first[-1]
    self._first = first
    entries = [
      (everyone, first[0] + label, right),
      (everyone, first[1] + label, np.ones(len(label))),
      (everyone[is_class], first[2] + predicted[is_class], np.ones(is_class.sum())),
      (everyone[is_sure], first[3] + bin_of, np.ones(is_sure.sum())),
      (everyone[is_sure], first[4] + bin_of, confidence[is_sure]),
      (everyone[is_sure], first[5] + bin_of, right[is_sure]),
      (everyone[has_score], first[7 - label[has_score]] + rank, np.ones(len(rank))),
      (everyone, np.full(len(label), totals), right),
      (everyone, np.full(len(label), totals + 1), np.ones(len(label))),
      (everyone[has_label], np.full(has_label.sum(), totals + 2), np.ones(has_label.sum())),
      (
        everyone[has_label],
        np.full(has_label.sum(), totals + 3),
        -np.log(np.maximum(of_label[has_label], _LEAST_SHARE)),
      ),
    ]
    rows, columns, values = (np.concatenate(each) for each in zip(*entries, strict=True))
    self._has_shares = bool(is_sure.any())
    self.matrix = sparse.csr_array((values, (rows, columns)), (len(label), int(totals) + 4))

  def figures(self, sums: np.ndarray, shown: Sequence[int] | None = None) -> dict[str, np.ndarray]:
    """Returns the figures.

    Args:
      sums: [resamples, columns] of the matrix.
      shown: the classes of "precision", "recall" and "f1"; None leaves these out.

    Returns:
      Name → [resamples], or [resamples, shown classes].
    """
    share, first, totals = bootstrap.share, self._first, self._first[-1]
    right, examples, predicted = (
      sums[:, first[index] : first[index] + self._classes] for index in range(3)
    )
    f1 = share(2 * right, examples + predicted)
    of_present = np.where(examples > 0, np.nan_to_num(f1), 0).sum(axis=1)
    found = {
      "accuracy": share(sums[:, totals], sums[:, totals + 1]),
      "macro_f1": share(of_present, (examples > 0).sum(axis=1).astype(np.float64)),
    }
    if self._has_shares:
      found |= {"log_loss": share(sums[:, totals + 3], sums[:, totals + 2]), "ece": self._ece(sums)}
    if self.has_scores:
      found |= self._areas(sums)
    if shown is not None:
      found |= {
        "precision": share(right[:, shown], predicted[:, shown]),
        "recall": share(right[:, shown], examples[:, shown]),
        "f1": f1[:, shown],
      }
    return found

  def _areas(self, sums):
    share, (first, middle, last) = bootstrap.share, self._first[6:]
    by_score = sums.T  # As it lies in memory.
    positives, negatives = by_score[first:middle], by_score[middle:last]
    # Up to each score, with it: the true positives and all examples.
    right, everyone = positives.cumsum(axis=0), (positives + negatives).cumsum(axis=0)
    precisions = right / np.maximum(everyone, 1)
    right -= positives / 2  # A pair with equal scores counts half.
    of_pairs = np.einsum("sr,sr->r", right, negatives)
    count = positives.sum(axis=0)
    return {
      "roc_auc": share(of_pairs, count * negatives.sum(axis=0)),
      "average_precision": share(np.einsum("sr,sr->r", precisions, positives), count),
    }

  def _ece(self, sums):
    counts, confidence, right = self._in_bins(sums)
    return bootstrap.share(np.abs(right - confidence).sum(axis=1), counts.sum(axis=1))

  def _in_bins(self, sums):
    first, bins = self._first, self._bins
    return [sums[:, first[index] : first[index] + bins] for index in (3, 4, 5)]

  def calibration_bins(self) -> list[dict[str, Any]]:
    """Returns a row of the reliability diagram for each bin with examples."""
    sums = np.asarray(self.matrix.sum(axis=0)).reshape(1, -1)
    counts, confidence, right = (each[0] for each in self._in_bins(sums))
    return [
      {
        "low": index / self._bins,
        "high": (index + 1) / self._bins,
        "examples": int(counts[index]),
        "confidence": float(confidence[index] / counts[index]),
        "accuracy": float(right[index] / counts[index]),
      }
      for index in np.flatnonzero(counts)
    ]


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
