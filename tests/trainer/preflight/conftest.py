"""What tests that call the TPU compiler, those with the marker `preflight`, need."""

import pytest

from trainer import errors
from trainer.preflight import compiler, topology


def pytest_runtest_setup(item):
  if item.get_closest_marker("preflight"):
    try:
      compiler.require_extra([topology.find("v3-8")])
    except errors.OctetError as error:
      pytest.skip(str(error))
