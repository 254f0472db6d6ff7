"""Every property is tested on every case."""

import pytest

from tests.conformance import cases


@pytest.fixture(params=cases.CASES, ids=lambda case: case.name)
def case(request):
  return request.param
