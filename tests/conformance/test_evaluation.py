"""Evaluation and prediction see each example once and in order; what is served is what was
predicted.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.conformance import cases, conftest
from trainer import testing


def softmax_loss(logits, labels):
  logits = logits.astype(np.float64)
  shifted = logits - logits.max(-1, keepdims=True)
  return np.mean(np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(len(labels)), labels])


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_metrics_and_loss_are_those_of_numpy(case, trained):
  _, labels = case.arrays()
  logits = np.stack([prediction["logits"] for prediction in trained.predict(case.eval_input_fn)])
  result = trained.evaluate(case.eval_input_fn)
  assert len(logits) == cases.EXAMPLES
  assert result["loss"] == pytest.approx(softmax_loss(logits, labels), abs=1e-6)
  assert result["accuracy"] == pytest.approx(np.mean(logits.argmax(-1) == labels), abs=1e-6)
  assert result["global_step"] == conftest.STEPS


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_one_core_predicts_what_eight_do_from_one_checkpoint(case, trained, device):
  other = case.estimator(trained.model_dir, "cpu" if device == "cpu:8" else "cpu:8")
  for mine, theirs in zip(
    trained.predict(case.eval_input_fn), other.predict(case.eval_input_fn), strict=True
  ):
    # Their cores add products in different orders: BERT's logits of 8 differ by two last bits, and
    # without AVX-512 a logit of 0.1 beside them differs by 1.2e-6.
    np.testing.assert_allclose(mine["logits"], theirs["logits"], rtol=3e-7, atol=2e-6)


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_the_export_serves_what_is_predicted(case, trained, tmp_path):
  features, _ = case.arrays()

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices(features).batch(params["batch_size"])

  rows = list(trained.predict(input_fn))
  predictions = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
  path = trained.export_saved_model(tmp_path)
  testing.assert_serves(path, features, predictions)
  # The last example, not the first: random numbers for a batch begin with those for its first
  # example, so randomness would not show.
  last = tf.nest.map_structure(lambda array: array[-1:], (features, predictions))
  testing.assert_serves(path, *last)
