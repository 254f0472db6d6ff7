"""Eight XLA devices, which PJRT drives, do what eight virtual cores do."""

import numpy as np
import pytest

from tests import long, runtimes
from tests.conformance import cases
from trainer import testing

runtimes.require_jax()


# The other properties have v1_variables on XLA devices in the gate, see long_on_several_cores.
@pytest.fixture(
  params=long.except_for([case for case in cases.CASES if case.name == "keras_model"], cases.CASES),
  ids=lambda case: case.name,
)
def case(request):
  return request.param


def test_they_train_evaluate_and_predict_alike(case, train):
  if case.name == "batch_norm_and_dropout":
    pytest.skip("XLA draws other random numbers")
  own, other = (train(case, device) for device in ("xla:8", "cpu:8"))
  testing.assert_same_values(testing.values(own), testing.values(other), tolerance=1e-5)
  # One checkpoint on both devices. 43 examples: the last batch is partial.
  again = case.estimator(own.model_dir, "cpu:8")
  expected, found = again.evaluate(case.eval_input_fn), own.evaluate(case.eval_input_fn)
  assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
  predictions = list(own.predict(case.eval_input_fn))
  assert len(predictions) == cases.EXAMPLES
  for mine, theirs in zip(predictions, again.predict(case.eval_input_fn), strict=True):
    np.testing.assert_allclose(mine["logits"], theirs["logits"], atol=1e-5)
