"""Gin state that the package keeps beside gin's own must not outlive a test either; and devices."""

import pytest

from tests import long, runtimes
from trainer import config


@pytest.fixture(autouse=True)
def _no_config():
  yield
  config.clear()


@pytest.fixture(params=long.except_for(["cpu", "cpu:2"], ["cpu", "cpu:2", "cpu:8", "xla:8"]))
def device(request):
  """One core, and several: two show what eight do, and are traced in a quarter of the time.

  The conformance tests have eight in the gate too.
  """
  if request.param.startswith("xla:"):
    runtimes.require_jax()
  return request.param
