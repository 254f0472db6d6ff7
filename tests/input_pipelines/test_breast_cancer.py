"""Breast cancer: two splits, by the statistics of the training set."""

import numpy as np
import pytest

from input_pipelines import breast_cancer
from trainer import errors


def test_tumours():
  (train, labels), (test, test_labels) = breast_cancer.load("train"), breast_cancer.load("test")
  assert (len(labels), len(test_labels)) == (455, 114)
  np.testing.assert_allclose(train["numbers"].mean(0), np.zeros(30), atol=1e-5)
  np.testing.assert_allclose(train["numbers"].std(0), np.ones(30), rtol=1e-5)
  assert abs(test["numbers"].mean(0)).max() > 0.01  # by the training set's statistics
  with pytest.raises(errors.SettingError, match="no split 'valid'"):
    breast_cancer.load("valid")


def test_an_evaluation_has_each_tumour_once_in_order():
  features, labels = breast_cancer.load("test")
  dataset = breast_cancer.input_fn({"batch_size": 50}, split="test")
  found = list(dataset.as_numpy_iterator())
  assert [len(batch) for _, batch in found] == [50, 50, 14]
  np.testing.assert_array_equal(np.concatenate([batch for _, batch in found]), labels)
  np.testing.assert_array_equal(
    np.concatenate([batch["numbers"] for batch, _ in found]), features["numbers"]
  )
  # scikit-learn's 0 is malignant: 212 of all 569.
  assert breast_cancer.CLASS_NAMES[0] == "malignant"
  every = np.concatenate([labels, breast_cancer.load("train")[1]])
  assert np.bincount(every).tolist() == [212, 357]
