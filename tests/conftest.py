"""Eight virtual cores for the whole session, made before TensorFlow starts; and no gin state
that outlives a test.
"""

import os
import signal

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import gin
import pytest

from trainer.devices import device as device_lib

device_lib.connect("cpu:8")

# A shell has processes ignore Ctrl-C that it starts in the background, and theirs with them.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_gin_bindings():
  yield
  gin.clear_config()


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items):
  """Has the eight cores of the tests that are long on them be long."""
  for item in items:
    on_eight = "callspec" in dir(item) and item.callspec.params.get("device") == "cpu:8"
    if on_eight and item.get_closest_marker("long_on_eight_cores"):
      item.add_marker(pytest.mark.long)


@pytest.fixture(params=os.environ.get("OCTET_TEST_DEVICES", "cpu,cpu:8").split(","))
def device(request):
  """One core, and eight; or those that OCTET_TEST_DEVICES names, such as gpu: tests.slow.gpu."""
  return request.param
