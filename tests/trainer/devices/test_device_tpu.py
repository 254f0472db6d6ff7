"""The way to a TPU, with a stand-in for the TPU that writes down what it is asked and in which
order.
"""

import re

import pytest
import tensorflow as tf

from trainer import errors
from trainer.cli import installation
from trainer.devices import device, tensorflow_package
from trainer.internals import libtpu_environment

ADDRESS = "grpc://10.0.0.2:8470"


@pytest.fixture(autouse=True)
def _a_machine_without_accelerators(monkeypatch):
  for variable in ("COLAB_TPU_ADDR", "TPU_NAME", "TF_CONFIG"):
    monkeypatch.delenv(variable, raising=False)
  monkeypatch.setattr(libtpu_environment.glob, "glob", lambda pattern: [])
  device._connect.cache_clear()
  yield
  device._connect.cache_clear()


@pytest.fixture
def calls(monkeypatch):
  """The calls that a connection makes; `calls.fail` is raised by the one that initializes."""

  class Calls(list):
    fail = None

  made = Calls()

  def initialize(resolver):
    made.append(("initialize_tpu_system", resolver))
    if made.fail:
      raise made.fail

  class Strategy:
    num_replicas_in_sync = 8

    class extended:
      num_hosts = 1

    def __init__(self, resolver):
      made.append(("TPUStrategy", resolver))

  def resolver(address):
    made.append(("TPUClusterResolver", address))
    return f"resolver of {address}"

  monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
  monkeypatch.setattr(
    tf.config,
    "experimental_connect_to_cluster",
    lambda resolver: made.append(("connect", resolver)),
  )
  monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", initialize)
  monkeypatch.setattr(tf.distribute, "TPUStrategy", Strategy)
  return made


def names(calls):
  return [name for name, _ in calls]


def test_the_order_and_once_per_process(calls):
  first = device.connect("tpu", ADDRESS)
  assert device.connect("tpu", ADDRESS) is first
  assert names(calls) == ["TPUClusterResolver", "connect", "initialize_tpu_system", "TPUStrategy"]
  assert calls[0] == ("TPUClusterResolver", ADDRESS)
  assert {argument for _, argument in calls[1:]} == {f"resolver of {ADDRESS}"}
  assert (first.kind, first.replicas, first.address) == ("tpu", 8, ADDRESS)


@pytest.mark.parametrize(
  ("variable", "value", "address"),
  [
    ("COLAB_TPU_ADDR", "10.1.2.3:8470", "grpc://10.1.2.3:8470"),
    ("TPU_NAME", "grpc://10.4.5.6:8470", "grpc://10.4.5.6:8470"),
    ("TPU_NAME", "local", "local"),
  ],
)
def test_found_in_the_environment(calls, monkeypatch, variable, value, address):
  monkeypatch.setenv(variable, value)
  assert device.connect("tpu").address == address
  assert calls[0] == ("TPUClusterResolver", address)
  assert device.choose() == ("tpu", variable)


def test_own_chips_are_local_and_need_no_connection(calls, monkeypatch):
  monkeypatch.setattr(
    libtpu_environment.glob,
    "glob",
    lambda pattern: ["/dev/accel0", "/dev/accel1"] if "accel" in pattern else [],
  )
  monkeypatch.setattr(
    tensorflow_package,
    "installed",
    lambda: tensorflow_package.Installed({"tensorflow-tpu": "2.20.0"}, "0.0.31"),
  )
  assert device.connect("tpu").address == "local"
  assert names(calls) == ["TPUClusterResolver", "initialize_tpu_system", "TPUStrategy"]


def test_auto_takes_the_cpu_where_there_is_nothing_else(calls):
  assert device.connect("auto").kind == "cpu"
  assert not calls


def test_a_named_tpu_is_never_replaced(calls):
  with pytest.raises(errors.SettingError, match="no TPU was found.*--tpu=NAME"):
    device.connect("tpu")


@pytest.mark.parametrize(
  ("failure", "message"),
  [
    (
      tf.errors.NotFoundError(None, None, "'ConfigureDistributedTPU' not registered"),
      f"cannot drive a TPU.*{re.escape(installation.command('tpu'))}",
    ),
    (
      tf.errors.AbortedError(None, None, "The TPU is already in use by process with pid 7"),
      "in use by another process",
    ),
    (RuntimeError("libtpu lockfile exists"), "in use by another process"),
    (
      tf.errors.UnavailableError(None, None, "failed to connect to all addresses"),
      "does not answer",
    ),
  ],
)
def test_what_goes_wrong_is_said_in_one_sentence(calls, failure, message):
  calls.fail = failure
  with pytest.raises(errors.SettingError, match=message) as raised:
    device.connect("tpu", ADDRESS)
  assert "\n" not in str(raised.value)
  assert ADDRESS in str(raised.value)


def test_a_tpu_and_another_device_contradict_each_other():
  with pytest.raises(errors.SettingError, match="--device=cpu"):
    device.connect("cpu", ADDRESS)


@pytest.mark.parametrize(
  ("packages", "libtpu", "problem"),
  [
    ({"tensorflow-cpu": "2.21.0"}, None, None),
    ({"tensorflow-tpu": "2.20.0"}, "0.0.31", None),
    ({"tensorflow-tpu": "2.20.0"}, "0.0.51", "libtpu 0.0.51 does not fit"),
    ({"tensorflow-tpu": "2.20.0"}, None, "needs libtpu"),
    ({"tensorflow-cpu": "2.21.0", "tensorflow-tpu": "2.20.0"}, "0.0.31", "overwrite each other"),
    ({}, None, "not installed"),
  ],
)
def test_packages_that_do_not_fit_are_found_without_importing_them(packages, libtpu, problem):
  found = tensorflow_package.Installed(packages, libtpu).problem()
  assert found is None if problem is None else problem in found


def test_installed_asks_for_every_package():
  versions = {"tensorflow-cpu": "2.21.0", "libtpu": "0.0.51"}

  def version(name):
    if name not in versions:
      raise tensorflow_package.importlib.metadata.PackageNotFoundError(name)
    return versions[name]

  assert tensorflow_package.installed(version) == tensorflow_package.Installed(
    {"tensorflow-cpu": "2.21.0"}, "0.0.51"
  )
