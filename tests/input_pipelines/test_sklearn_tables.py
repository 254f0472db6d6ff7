"""The splits of scikit-learn's tables."""

import numpy as np
import pytest

from input_pipelines import sklearn_tables
from trainer import errors

pytest.importorskip("sklearn")


def test_every_fifth_row_is_for_the_test_and_none_is_in_both():
  from sklearn import datasets

  whole = datasets.load_breast_cancer()
  encoder, test, test_labels = sklearn_tables.load("breast_cancer", "test", np.int32)
  _, train, train_labels = sklearn_tables.load("breast_cancer", "train", np.int32)
  assert (len(test_labels), len(train_labels)) == (114, 455)
  for number, name in enumerate(whole.feature_names):
    column = np.empty(569)
    column[::5], column[np.arange(569) % 5 != 0] = test[name], train[name]
    np.testing.assert_array_equal(column, whole.data[:, number])
  np.testing.assert_array_equal(test_labels, whole.target[::5])
  assert test_labels.dtype == np.int32
  assert len(encoder.features(test)["numbers"]) == 114


@pytest.mark.parametrize("split", ["validation", "", "Train"])
def test_another_split_is_refused_by_its_gin_name(split):
  with pytest.raises(errors.SettingError, match=r"breast_cancer\.input_fn\.split"):
    sklearn_tables.load("breast_cancer", split, np.int32)
