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
  """Has the tests that are long on several cores be long there, but for the case that they name."""
  for item in items:
    mark = item.get_closest_marker("long_on_several_cores")
    if mark and "callspec" in dir(item):
      device, case = map(item.callspec.params.get, ("device", "case"))
      if str(device).startswith("cpu:") and getattr(case, "name", "") != mark.kwargs.get("but"):
        item.add_marker(pytest.mark.long)


@pytest.fixture(params=os.environ.get("OCTET_TEST_DEVICES", "cpu,cpu:8").split(","))
def device(request):
  """One core, and eight; or those that OCTET_TEST_DEVICES names, such as gpu: tests.slow.gpu."""
  return request.param
