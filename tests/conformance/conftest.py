"""Every property is tested on every case, in the gate on those that differ most."""

import pytest

from tests import long
from tests.conformance import cases


@pytest.fixture(params=long.except_for(cases.QUICK, cases.CASES), ids=lambda case: case.name)
def case(request):
  return request.param
