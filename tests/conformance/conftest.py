"""Every property is tested on every case, in the gate on those that differ most."""

import pytest

from tests import long
from tests.conformance import cases

QUICK = ("keras_layers", "v1_variables", "as_bert_trains")


@pytest.fixture(
  params=long.except_for([case for case in cases.CASES if case.name in QUICK], cases.CASES),
  ids=lambda case: case.name,
)
def case(request):
  return request.param
