"""Gin state that the package keeps beside gin's own must not outlive a test either."""

import pytest

from trainer import config


@pytest.fixture(autouse=True)
def _no_config():
  yield
  config.clear()
