"""What is observed of an example, in the forms in which models predict and inputs label."""

import numpy as np
import pytest

from trainer import errors
from trainer.judgement import observations


def observe(prediction, labels, **settings):
  found = observations.Observations(
    settings.get("label"), settings.get("prediction"), settings.get("slices", ())
  )
  ((observed, _),) = found.watch([(prediction, ({"x": np.float32(1)}, labels))])
  return found.kind, observed


@pytest.mark.parametrize(
  "prediction, predicted, confidence, of_label",
  [
    ({"class": np.int32(1), "probabilities": np.array([0.25, 0.75])}, 1, 0.75, 0.25),
    ({"probabilities": np.array([0.25, 0.75], np.float32)}, 1, 0.75, 0.25),
    ({"class_ids": np.array([1]), "probabilities": np.array([0.25, 0.75])}, 1, 0.75, 0.25),
    ({"probabilities": np.array([0.75])}, 1, 0.75, 0.25),
    ({"class": np.int64(1)}, 1, np.nan, np.nan),
    ({"class": np.int64(0), "probabilities": np.array([np.nan, 1])}, -1, np.nan, np.nan),
  ],
)
def test_classes(prediction, predicted, confidence, of_label):
  kind, observed = observe(prediction, np.int64(0))
  assert (kind, observed.label, observed.predicted) == ("classes", 0, predicted)
  np.testing.assert_equal([observed.confidence, observed.of_label], [confidence, of_label])


def test_numbers():
  kind, observed = observe({"price": np.array([2.5])}, np.float32(2))
  assert (kind, observed.label, observed.predicted) == ("numbers", 2.0, 2.5)
  weighted = observations.Observations(None, None, ())
  pair = {"y": np.float32(1)}, ({"x": np.float32(1)}, np.float32(2), np.float32(0.5))
  assert [observed.label for observed, _ in weighted.watch([pair])] == [2]
  _, observed = observe(np.float32(np.inf), np.int64(2))
  assert np.isnan(observed.predicted)


def test_a_label_of_several_is_named():
  labels = {"age": np.int32(1), "sex": np.int32(0)}
  _, observed = observe({"class": np.int32(1)}, labels, label="sex")
  assert observed.label == 0
  with pytest.raises(
    errors.SettingError, match="the labels are age, sex; got None: name the label"
  ):
    observe({"class": np.int32(1)}, labels)


@pytest.mark.parametrize(
  "labels, error, message",
  [
    (np.int32(-1), errors.InputError, "the label -1 is no class"),
    (np.zeros(3, np.int32), errors.SettingError, r"its shape is \[3\]"),
  ],
)
def test_labels_that_are_none(labels, error, message):
  with pytest.raises(error, match=message):
    observe({"class": np.int32(1)}, labels)
