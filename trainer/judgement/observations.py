"""Keeps a few numbers of each example: its label, its prediction, how sure the model was.

    found = observations.Observations(settings)
    for observed, example in found.watch(estimator.predict(input_fn, with_examples=True)):
      ...
    found.arrays()                       # {"label": ..., "predicted": ..., ...}

It does not keep predictions and features.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.judgement.class_figures import NO_CLASS
from trainer.reporting.evaluation_reports import CLASSES, NUMBERS

_ASK = "(EvaluationReport.{}, see docs/judge_a_model.md)"

_CLASS = ("class", "class_ids")  # Canned estimators name it class_ids.
_OF_CLASSES = (*_CLASS, "probabilities", "logits")


@dataclasses.dataclass(frozen=True)
class Observed:
  """The label and the prediction of an example.

  Attributes:
    label: a class or a number.
    predicted: a class or NO_CLASS; or a number or NaN.
    confidence: the probability of the predicted class; NaN if unknown.
    of_label: the probability of the label; NaN if unknown.
    probabilities: the probabilities of all classes; None if unknown.
  """

  label: float
  predicted: float
  confidence: float = np.nan
  of_label: float = np.nan
  probabilities: np.ndarray | None = None


class Observations:
  """Observes pairs of a prediction and its example.

  Args:
    label: the key of the label, if labels are a dict; None for the only label.
    prediction: the key of the predicted number, if there are several; None for the only number.
    slices: the keys of the features or columns to keep.
    rows: column → values of all examples in their order, see `trainer.mark_raw`.

  Attributes:
    kind: CLASSES or NUMBERS, known after the first example.
    classes: the number of probabilities; 0 if the model predicts none.
    slices: key → the feature's value for each example.
  """

  def __init__(
    self,
    label: str | None,
    prediction: str | None,
    slices: Sequence[str],
    rows: Mapping[str, Any] | None = None,
  ) -> None:
    self.kind = ""
    self.classes = 0
    self.slices: dict[str, list[Any]] = {name: [] for name in slices}
    self._label = label
    self._prediction = prediction
    self._rows = rows or {}
    self._observed: list[tuple[float, ...]] = []
    self._features = hashlib.sha256()

  def watch(self, pairs: Iterable[tuple[Any, tuple]]) -> Iterator[tuple[Observed, tuple]]:
    """Yields (Observed, example) of each pair.

    Raises:
      SettingError: there is no label, or the model predicts neither a class nor a single number.
    """
    for prediction, example in pairs:
      label = self._label_of(example)
      # The first example decides: all examples have the same dtypes.
      self.kind = self.kind or self._kind_of(prediction, label)
      observe = self._observe_class if self.kind == CLASSES else self._observe_number
      observed = observe(prediction, label)
      shares = observed.probabilities
      self.classes = self.classes if shares is None else len(shares)
      score = shares[1] if shares is not None and len(shares) == 2 else np.nan
      self._keep_features(example[0])
      self._observed.append(
        (observed.label, observed.predicted, observed.confidence, observed.of_label, score)
      )
      yield observed, example

  def arrays(self) -> dict[str, np.ndarray]:
    """Returns the arrays of a report, an entry for each example.

    "label", "predicted", "confidence", "of_label", and "score": the probability of class 1 of two.
    """
    names = ("label", "predicted", "confidence", "of_label", "score")
    columns = np.array(self._observed, np.float64).reshape(-1, len(names)).T
    arrays = dict(zip(names, columns, strict=True))
    if self.kind == CLASSES:
      arrays |= {name: arrays[name].astype(np.int64) for name in ("label", "predicted")}
    return arrays

  def digest(self) -> str:
    """Returns the SHA-256 of all features. Equal sets have equal digests."""
    return self._features.hexdigest()

  def _keep_features(self, features):
    for leaf in tf.nest.flatten(features):
      array = np.asarray(leaf)
      self._features.update(array.tobytes() if array.dtype != object else repr(leaf).encode())
    named = features if isinstance(features, Mapping) else {}
    for name, kept in self.slices.items():
      if name not in named and name not in self._rows:
        known = ", ".join([*sorted(named), *self._rows]) or "no names"
        raise errors.SettingError(
          f"EvaluationReport.slices has {name!r}, and the features have {known}."
        )
      known = named[name] if name in named else self._of_row(name, len(self._observed))
      value = np.asarray(known)
      if value.size != 1:
        raise errors.SettingError(
          f"EvaluationReport.slices has {name!r}, and its shape for an example is "
          f"{list(value.shape)}: expected one value."
        )
      kept.append(value.reshape(()).item())

  def row(self, number: int) -> dict[str, Any]:
    """Returns the columns of an example: numbers, texts, and None for a missing value.

    Raises:
      SettingError: there are more examples than rows.
    """
    return {name: self._of_row(name, number) for name in self._rows}

  def _of_row(self, name, number):
    if number >= len(self._rows[name]):
      raise errors.SettingError(
        f"The eval input_fn gives more examples than the {number:,} rows of its trainer.mark_raw."
      )
    return _plain(self._rows[name][number])

  def _label_of(self, example):
    labels = example[1] if len(example) > 1 else None  # Perhaps with weights behind them.
    if isinstance(labels, Mapping):
      name = self._label or (next(iter(labels)) if len(labels) == 1 else None)
      if name not in labels:
        raise errors.SettingError(
          f"run.evaluation_report needs one label, and the labels are {', '.join(sorted(labels))}; "
          f"got {self._label!r}: name the label {_ASK.format('label')}."
        )
      labels = labels[name]
    array = None if labels is None else np.asarray(labels)
    if array is None or array.size != 1:
      seen = "there is none" if array is None else f"its shape is {list(array.shape)}"
      raise errors.SettingError(
        "run.evaluation_report needs a class or a number as the label of each example, and "
        f"{seen}: take the report out, or have the eval input_fn give such labels."
      )
    return array.reshape(())

  def _kind_of(self, prediction, label):
    classes = self._of_classes(prediction)
    of_classes = _class_of(classes) is not None or _probabilities_of(classes) is not None
    # Float labels of a class are classes too, unless the model predicts a number beside it.
    others = classes.items() if self._prediction is None else ()
    has_number = any(_is_a_number(value) for name, value in others if name not in _OF_CLASSES)
    if of_classes and (label.dtype.kind in "iub" or not has_number):
      return CLASSES
    self._number_of(prediction)
    return NUMBERS

  def _of_classes(self, prediction):
    """Returns the part of a prediction with the class; {} if it names another number."""
    if not isinstance(prediction, Mapping):
      return {}
    if self._prediction is None or self._prediction in _OF_CLASSES:
      return prediction
    value = np.asarray(prediction.get(self._prediction, ""))
    return {"class": value} if value.dtype.kind in "iub" else {}

  def _number_of(self, prediction):
    named = prediction if isinstance(prediction, Mapping) else {"": prediction}
    if self._prediction is not None:
      named = {name: value for name, value in named.items() if name == self._prediction}
    numbers = [value for value in named.values() if _is_a_number(value)]
    if len(numbers) != 1:
      known = ", ".join(sorted(prediction)) if isinstance(prediction, Mapping) else "one tensor"
      raise errors.SettingError(
        'run.evaluation_report needs predictions of a "class" with an integer label, or of one '
        f"number for each example; the model_fn predicts {known}: name the number "
        f"{_ASK.format('prediction')}."
      )
    return numbers[0]

  def _observe_class(self, prediction, label):
    return _observe_class(self._of_classes(prediction), label)

  def _observe_number(self, prediction, label):
    value = float(np.asarray(self._number_of(prediction)).astype(np.float64).reshape(()))
    return Observed(float(label), value if np.isfinite(value) else np.nan)


def _is_a_number(value):
  array = np.asarray(value)
  # numpy reports bfloat16 as kind "V".
  return array.size == 1 and array.dtype.kind in "fVui"


def _class_of(prediction):
  """Returns the predicted class, or None."""
  for name in _CLASS:
    value = np.asarray(prediction.get(name, ""))
    if value.size == 1 and value.dtype.kind in "iub":
      return int(value.reshape(()))
  return None


def _probabilities_of(prediction):
  """Returns the probabilities, float64 [classes], or None."""
  value = np.asarray(prediction.get("probabilities", ""))
  if value.ndim > 1 or value.dtype.kind not in "fV":
    return None
  values = value.astype(np.float64).ravel()
  # A single probability is the probability of class 1 of two classes.
  return np.array([1 - values[0], values[0]]) if values.size == 1 else values


def _observe_class(prediction, label):
  if label < 0 or label != np.floor(label):
    raise errors.InputError(
      f"run.evaluation_report: the label {label} is no class: classes have the numbers from 0 on. "
      "Leave such examples out of the eval input_fn, name a predicted number "
      f"{_ASK.format('prediction')}, or take the report out."
    )
  label, shares = int(label), _probabilities_of(prediction)
  if shares is not None and not np.isfinite(shares).all():
    # tf.argmax returns class 0 for probabilities of NaN. Class 0 is then no prediction.
    return Observed(label, NO_CLASS, probabilities=shares)
  predicted = _class_of(prediction)
  if predicted is None:
    predicted = int(np.argmax(shares))
  if shares is None:
    return Observed(label, predicted)
  of_label = float(shares[label]) if label < len(shares) else 0.0
  confidence = float(shares[predicted]) if 0 <= predicted < len(shares) else np.nan
  return Observed(label, predicted, confidence, of_label, shares)


def _plain(value):
  """Returns a value of a column as a plain Python number, text or None."""
  value = value.as_py() if hasattr(value, "as_py") else value
  value = value.item() if isinstance(value, np.generic) else value
  if isinstance(value, bool | int | float):
    return value if value == value else None
  text = value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
  return text.strip() or None
