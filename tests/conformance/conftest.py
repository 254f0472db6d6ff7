"""Every property is tested on every case, in the gate on those that differ most."""

import pytest

from tests import long
from tests.conformance import cases

STEPS = 20


@pytest.fixture(params=long.except_for(cases.QUICK, cases.CASES), ids=lambda case: case.name)
def case(request):
  return request.param


@pytest.fixture(scope="session")
def train(tmp_path_factory):
  """(case, device) → an Estimator that has trained for STEPS steps.

  Tests share the Estimator, and what it has traced: no test may train it on.
  """
  made = {}

  def once(case, device):
    if (case.name, device) not in made:
      estimator = case.estimator(tmp_path_factory.mktemp("trained"), device)
      made[case.name, device] = estimator.train(case.train_input_fn, steps=STEPS)
    return made[case.name, device]

  return once


@pytest.fixture
def trained(case, device, train):
  """The shared Estimator of this case on this device."""
  return train(case, device)
