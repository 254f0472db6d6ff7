"""Eight virtual cores for the whole session, made before TensorFlow starts; and no gin state
that outlives a test.
"""

import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads spin while they wait

import gin
import pytest

from tests import durations, nightly, runtimes, warm

# A shell has processes ignore Ctrl-C that it starts in the background, and theirs with them.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
  durations.add_option(parser)
  nightly.add_option(parser)


# pytest-xdist's controller imports this file and runs no test. It does without TensorFlow, whose
# import takes 3 s of CPU time.
def pytest_configure(config):
  """Makes the eight cores, in each process that runs tests."""
  if config.getoption("measure"):
    config.pluginmanager.register(durations.Recorder())
  if config.getoption("choose"):
    config.pluginmanager.register(nightly.Recorder(config))
  if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
    return
  # Modules stay, so that looking for garbage while they are imported finds none.
  gc.disable()
  from trainer.devices import device as device_lib
  from trainer.devices import gpu_config, gpus

  if "xla:gpu" in os.environ.get(_DEVICES, ""):
    gpus.leave_to_pjrt(gpu_config.GPUConfig())  # before TensorFlow starts, and takes them
  device_lib.connect("cpu:8")


def pytest_make_parametrize_id(val):
  """Names bytes by their length: the bytes of a protocol buffer's map differ in each process.

  pytest-xdist refuses to run when two of its processes name a test differently.
  """
  return f"{len(val)} bytes" if isinstance(val, bytes) else None


def pytest_collection_finish():
  """Has the garbage collector look at what tests make, not at a million objects of modules."""
  gc.freeze()
  # A trace makes 100,000 objects and more. The collector's own 700 looks at each of them often.
  gc.set_threshold(100_000, 20, 20)
  gc.enable()


@pytest.fixture(autouse=True)
def _no_gin_bindings():
  yield
  gin.clear_config()


@pytest.fixture(autouse=True, scope="session")
def _own_temporary_folder(tmp_path_factory):
  """Removes what tests leave in the temporary folder: runs without a model_dir, killed processes.

  It is not a folder of tmp_path_factory, whose longer path would not fit in a socket's name.
  """
  tmp_path_factory.getbasetemp()  # not in this folder, so that it outlives the tests
  folder = tempfile.mkdtemp(prefix="octet_tests_")
  os.chmod(folder, 0o711)  # a database server runs as another user
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("TMPDIR", folder)
    patch.setattr(tempfile, "tempdir", folder)
    yield
  shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def _exports_are_checked_in_a_fork():
  """Has the process that checks exports begin with TensorFlow, whose import takes 4 s of CPU time.

  The test of the README starts this process as users do.
  """
  from trainer.cli import kept_process

  def start(command, **streams):
    is_check = command[1] == "-P"
    return (warm.start_with_streams if is_check else subprocess.Popen)(command, **streams)

  with pytest.MonkeyPatch.context() as patch:
    subprocess_of_forks = types.SimpleNamespace(
      Popen=start, TimeoutExpired=subprocess.TimeoutExpired
    )
    patch.setattr(kept_process, "subprocess", subprocess_of_forks)
    yield


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
  """Has no test find programs that the user or another test has compiled."""
  folder = tmp_path_factory.getbasetemp() / "caches" / str(next(_numbers))
  monkeypatch.setenv("OCTET_CACHE", str(folder))


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(config, items):
  """Has the tests that are long on several cores be long there, but for the case that they name.

  On XLA devices all others are long too, unless OCTET_TEST_DEVICES asks for them.
  """
  for item in items:
    if "callspec" not in dir(item):
      continue
    mark = item.get_closest_marker("long_on_several_cores")
    device, case = map(item.callspec.params.get, ("device", "case"))
    is_but = mark and "but" in mark.kwargs and getattr(case, "name", "") == mark.kwargs["but"]
    on_xla = str(device).startswith("xla:")
    if on_xla and item.get_closest_marker("of_tensorflows_replicas"):
      item.add_marker(
        pytest.mark.skip("TensorFlow runs no step on XLA devices, and traces one replica")
      )
    if not is_but and (
      (mark and str(device).startswith("cpu:")) or (on_xla and _DEVICES not in os.environ)
    ):
      item.add_marker(pytest.mark.long)
  if not config.getoption("choose"):
    nightly.mark(items)
  durations.mark_quick(items)
  if "hypothesis" in sys.modules:
    _draw_no_constants_of_the_code()


def _draw_no_constants_of_the_code():
  """Has hypothesis parse no module: this takes 2 s, and its examples would change with the code."""
  from hypothesis.internal.conjecture import providers

  providers._get_local_constants = providers.Constants


_DEVICES = "OCTET_TEST_DEVICES"


@pytest.fixture(params=os.environ.get(_DEVICES, "cpu,cpu:8,xla:8").split(","))
def device(request):
  """One core, and eight; or those that OCTET_TEST_DEVICES names, such as gpu: tests.slow.gpu."""
  if request.param.startswith("xla:"):
    runtimes.require_jax()
  return request.param
