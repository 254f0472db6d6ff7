import numpy as np
import pytest
from sklearn import datasets

from input_pipelines import diabetes
from trainer import errors


def examples(split):
  (batch,) = diabetes.input_fn({"batch_size": 500}, split).as_numpy_iterator()
  return batch


def test_every_fifth_patient_is_for_the_test():
  source = datasets.load_diabetes(scaled=False)
  (train, train_scores), (test, scores) = examples("train"), examples("test")
  np.testing.assert_array_equal(scores, source.target[::5].astype(np.float32))
  assert (train["numbers"].shape, test["numbers"].shape) == ((353, 10), (89, 10))
  np.testing.assert_allclose(train["numbers"].mean(0), np.zeros(10), atol=1e-5)
  np.testing.assert_allclose(train["numbers"].std(0), np.ones(10), atol=1e-5)
  seen = np.delete(source.data, np.s_[::5], 0)
  np.testing.assert_allclose(
    test["numbers"], (source.data[::5] - seen.mean(0)) / seen.std(0), rtol=1e-4, atol=1e-5
  )
  ((mean,), (deviation,)) = diabetes.target_statistics()
  np.testing.assert_allclose([mean, deviation], [train_scores.mean(), train_scores.std()])


def test_another_split():
  with pytest.raises(errors.SettingError, match="no split 'valid'"):
    diabetes.load("valid")
