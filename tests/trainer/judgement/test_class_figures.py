"""The figures of a classifier: against scikit-learn, and where they are not defined."""

import numpy as np
import pytest
from sklearn import metrics

from tests.trainer.judgement import observed
from trainer.judgement import class_figures


def describe(arrays, names=(), classes=0, resamples=50):
  return class_figures.ClassFigures(
    arrays, names, classes, resamples=resamples, confidence=0.95, seed=1
  ).describe()


def values(rows, figure):
  return [row[figure]["value"] for row in rows]


def test_figures_are_those_of_scikit_learn():
  arrays = observed.classes()
  found = describe(arrays)
  label, predicted = arrays["label"], arrays["predicted"]
  precision, recall, f1, support = metrics.precision_recall_fscore_support(label, predicted)
  assert values(found["classes"], "precision") == pytest.approx(precision)
  assert values(found["classes"], "recall") == pytest.approx(recall)
  assert values(found["classes"], "f1") == pytest.approx(f1)
  assert [row["examples"] for row in found["classes"]] == support.tolist()
  assert found["metrics"]["accuracy"]["value"] == pytest.approx(np.mean(label == predicted))
  assert found["metrics"]["macro_f1"]["value"] == pytest.approx(
    metrics.f1_score(label, predicted, average="macro")
  )
  assert found["metrics"]["log_loss"]["value"] == pytest.approx(-np.log(arrays["of_label"]).mean())
  assert found["confusions"]["counts"] == metrics.confusion_matrix(label, predicted).tolist()


def test_the_calibration_error_is_the_mean_distance_of_the_bins():
  # 15 bins: two examples in (0.5333, 0.6] of which one is right, two in (0.9333, 1] both right.
  arrays = dict(
    label=np.array([0, 1, 0, 1]),
    predicted=np.array([0, 0, 0, 1]),
    confidence=np.array([0.55, 0.6, 1.0, 0.98]),
    of_label=np.array([0.55, 0.4, 1.0, 0.98]),
  )
  found = describe(arrays)
  assert found["metrics"]["ece"]["value"] == pytest.approx((2 * 0.075 + 2 * 0.01) / 4)
  assert [(each["examples"], each["accuracy"]) for each in found["calibration"]["bins"]] == [
    (2, 0.5),
    (2, 1.0),
  ]


def test_the_largest_confusions_are_named_in_a_sentence():
  arrays = observed.classes(6, classes=3)
  arrays["label"] = np.array([0, 0, 0, 1, 1, 2])
  arrays["predicted"] = np.array([1, 1, 0, 1, 2, 2])
  found = describe(arrays, names=["cat", "dog", "cow"])
  assert found["sentence"] == (
    "The largest confusions: cat taken for dog (2 of 3) and dog taken for cow (1 of 2)."
  )
  arrays["predicted"] = arrays["label"]
  assert describe(arrays)["sentence"] == "The model mistakes no example for another class."


def test_a_class_without_examples_has_no_recall_and_is_named():
  arrays = observed.classes(100, classes=3)
  found = describe(arrays, names=["a", "b", "c", "d"])
  last = found["classes"][3]
  assert (last["examples"], last["recall"]) == (0, dict(value=None, low=None, high=None))
  assert last["precision"]["value"] is None
  assert "The class d has no example and so no recall." in found["notes"]
  # It does not lower the mean over the classes.
  assert found["metrics"]["macro_f1"] == describe(arrays)["metrics"]["macro_f1"]


def test_predictions_that_are_nan_count_as_wrong_and_are_told():
  arrays = observed.classes(100, classes=3, right=1)
  arrays["predicted"][:10] = class_figures.NO_CLASS
  arrays["confidence"][:10] = arrays["of_label"][:10] = np.nan
  found = describe(arrays)
  assert found["metrics"]["accuracy"]["value"] == 0.9
  assert sum(row["examples"] for row in found["classes"]) == 100
  assert found["calibration"]["examples"] == 90
  assert [note for note in found["notes"] if note.startswith("10 of 100 predictions are NaN")]
  assert "taken for nothing" in found["sentence"]


def test_worst_of_10000_classes_are_shown_and_others_noted():
  arrays = observed.classes(20_000, classes=10_000)
  found = describe(arrays, classes=10_000, resamples=5)
  assert len(found["classes"]) == 100
  assert len(found["confusions"]["counts"]) == 20
  assert any("the table shows the 100 with" in note for note in found["notes"])
  # All of a label's examples are in its row, those of classes that are not shown together.
  for number, row in zip(
    found["confusions"]["classes"], found["confusions"]["counts"], strict=True
  ):
    assert sum(row) == (arrays["label"] == number).sum()
  shown = max(row["f1"]["value"] for row in found["classes"])
  _, _, f1, _ = metrics.precision_recall_fscore_support(
    arrays["label"], arrays["predicted"], labels=range(10_000), zero_division=0
  )
  assert shown <= np.sort(f1)[200]


def test_missing_probabilities_give_a_note_and_no_calibration():
  arrays = observed.classes(50)
  arrays["confidence"] = arrays["of_label"] = np.full(50, np.nan)
  found = describe(arrays)
  assert set(found["metrics"]) == {"accuracy", "macro_f1"}
  assert found["calibration"] is None
  assert 'no finite "probabilities"' in found["notes"][-1]


def scored(count, positives=0.1, digits=1, lost=0):
  """A classifier of two classes with few different scores, and some without any."""
  random = np.random.default_rng(3)
  label = (random.random(count) < positives).astype(np.int64)
  score = np.clip(0.2 + 0.3 * label + 0.2 * random.normal(size=count), 0, 1).round(digits)
  score[:lost] = np.nan
  predicted = np.where(np.isfinite(score), score >= 0.5, class_figures.NO_CLASS).astype(np.int64)
  of_label = np.where(label, score, 1 - score)
  confidence = np.maximum(score, 1 - score)
  return dict(
    label=label, predicted=predicted, confidence=confidence, of_label=of_label, score=score
  )


@pytest.mark.parametrize("digits", [1, 12])
def test_areas_and_the_threshold_are_those_of_scikit_learn(digits):
  arrays = scored(400, digits=digits, lost=3)
  found = describe(arrays, names=("no", "yes"))
  label, score = arrays["label"][3:], arrays["score"][3:]
  areas = dict(roc_auc=metrics.roc_auc_score, average_precision=metrics.average_precision_score)
  for name, area in areas.items():
    estimate = found["metrics"][name]
    assert estimate["value"] == pytest.approx(area(label, score), rel=1e-9)
    assert estimate["low"] < estimate["value"] < estimate["high"]
  best = found["threshold"]
  f1 = [metrics.f1_score(label, score >= value) for value in np.unique(score)]
  chosen = score >= best["probability"]
  assert best["f1"] == pytest.approx(max(f1)) == pytest.approx(metrics.f1_score(label, chosen))
  assert best["precision"] == pytest.approx(metrics.precision_score(label, chosen))
  assert "The F1 of yes is largest" in found["sentence"]


def test_areas_need_two_classes_and_their_scores():
  arrays = scored(50)
  alone = describe(arrays | {"label": np.zeros(50, np.int64)})
  assert alone["threshold"] is None
  assert alone["metrics"]["roc_auc"]["value"] is None
  for other in (describe(arrays, classes=3), describe({**arrays, "score": np.full(50, np.nan)})):
    assert other["threshold"] is None
    assert "roc_auc" not in other["metrics"]
