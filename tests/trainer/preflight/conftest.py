"""The marker of tests that call the TPU compiler."""

import importlib.util

import pytest


def pytest_configure(config):
  config.addinivalue_line("markers", "preflight: compiles for a TPU; needs the extra [preflight].")


def pytest_runtest_setup(item):
  if item.get_closest_marker("preflight") and importlib.util.find_spec("libtpu") is None:
    pytest.skip("the TPU compiler is not installed: pip install 'octet[preflight]'")
