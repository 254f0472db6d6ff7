"""Evaluation and prediction see each example once and in order; what is served is what was
predicted.
"""

import numpy as np
import pytest

from tests.conformance import cases
from trainer import testing


@pytest.fixture
def trained(case, device, tmp_path):
  return case.estimator(tmp_path / "model", device).train(case.train_input_fn, steps=3)


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
  assert result["global_step"] == 3


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_one_core_predicts_what_eight_do_from_one_checkpoint(case, trained, device, tmp_path):
  other = case.estimator(tmp_path / "model", "cpu" if device == "cpu:8" else "cpu:8")
  for mine, theirs in zip(
    trained.predict(case.eval_input_fn), other.predict(case.eval_input_fn), strict=True
  ):
    np.testing.assert_allclose(mine["logits"], theirs["logits"], atol=1e-6)


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_the_export_serves_what_is_predicted(case, device):
  testing.assert_export_matches(
    case.model_fn,
    case.train_input_fn,
    batch_size=case.global_batch,
    params=case.params,
    device=device,
  )
