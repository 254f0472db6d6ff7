"""Devices by name: what is asked for is what one gets, or an error that says what there is."""

import json
import os
import re
import types

import pytest
import tensorflow as tf

from trainer import errors
from trainer.cli import installation
from trainer.devices import device as device_lib
from trainer.devices import gpu_config, nvidia_driver
from trainer.pjrt import devices as pjrt_devices
from trainer.pjrt import installed, tpu


@pytest.fixture(autouse=True)
def _an_environment_that_tells_of_nothing(monkeypatch):
  monkeypatch.delenv("TF_CONFIG", raising=False)
  monkeypatch.setattr(tpu, "signs", lambda: "")


@pytest.mark.parametrize(
  "name, replicas, strategy",
  [
    ("cpu", 1, tf.distribute.OneDeviceStrategy),
    ("cpu:1", 1, tf.distribute.OneDeviceStrategy),
    ("cpu:8", 8, tf.distribute.MirroredStrategy),
  ],
)
def test_cores(name, replicas, strategy):
  device = device_lib.connect(name)
  assert (device.kind, device.replicas, device.local_replicas, device.hosts, device.host) == (
    "cpu",
    replicas,
    replicas,
    1,
    0,
  )
  assert isinstance(device.strategy, strategy)
  assert device.is_chief
  assert not device.is_multi_worker


def test_xla_devices():
  pytest.importorskip("jax")
  device = device_lib.connect("xla:8")
  assert (device.kind, device.replicas, device.local_replicas, device.hosts) == ("xla", 8, 8, 1)
  assert device.xla_devices.count == 8
  assert device.resembles_tpu
  assert not device.uses_cpu_kernels(True)
  assert device_lib.connect("xla:8") is device


def test_xla_devices_need_jax(monkeypatch):
  def absent(*args):
    raise errors.VersionError("jax is not installed")

  monkeypatch.setattr(installed, "require", absent)
  with pytest.raises(errors.VersionError, match="jax is not installed"):
    device_lib.connect("xla:7")


def devices_of_pjrt(platform, count):
  chip = types.SimpleNamespace(device_kind="NVIDIA H100 80GB HBM3")
  return pjrt_devices.Devices(platform, (chip,) * count, versions={})


class FakeGPUs:
  """Connects as many GPUs as asked for, of four, as PJRT would."""

  def __init__(self):
    self.asked, self.hidden = [], []

  def hide(self, *what):
    self.hidden.append(what)

  def connect(self, platform, count):
    self.asked.append((platform, count))
    return devices_of_pjrt(platform, count or 4)


@pytest.fixture
def gpus(monkeypatch):
  found = FakeGPUs()
  monkeypatch.setattr(device_lib.pjrt_devices, "connect", found.connect)
  monkeypatch.setattr(tf.config, "set_visible_devices", found.hide)
  monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
  yield found
  device_lib._connect.cache_clear()


@pytest.mark.parametrize("name, count", [("xla:gpu", None), ("xla:gpu:2", 2)])
def test_pjrt_drives_gpus(gpus, name, count):
  device = device_lib.connect(name)
  assert gpus.asked == [("gpu", count)]
  assert gpus.hidden == [([], "GPU")]  # TensorFlow's own GPUs
  assert (device.kind, device.replicas, device.runs_by_pjrt) == ("xla", count or 4, True)
  assert str(device) == f"xla (NVIDIA H100 80GB HBM3), {count or 4} replicas"
  assert device.uses_gpus
  assert not device.resembles_tpu
  assert not device.strategy.extended.packs  # XLA packs for GPUs


def test_the_settings_of_gpus_are_for_pjrt_too(gpus, monkeypatch):
  monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
  config = gpu_config.GPUConfig(tensor_float_32=False, deterministic=True, memory_growth=False)
  device = device_lib.connect("xla:gpu", gpu=config)
  assert device.xla_devices.full_precision
  assert device.xla_devices.deterministic
  assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"


def test_pjrt_drives_no_gpus_that_tensorflow_uses(gpus, monkeypatch):
  def too_late(*_):
    raise RuntimeError("Visible devices cannot be modified after being initialized")

  monkeypatch.setattr(tf.config, "set_visible_devices", too_late)
  with pytest.raises(errors.SettingError, match="xla:gpu comes too late: TensorFlow uses the GPUs"):
    device_lib.connect("xla:gpu:3")


@pytest.mark.parametrize(
  "name, own", [("xla:8", ("cpu", 8)), ("tpu", ("tpu", None)), ("xla:gpu:8", ("gpu", 8))]
)
def test_several_workers_join_with_the_xla_devices_of_each(monkeypatch, name, own):
  cluster = {"worker": ["localhost:1", "localhost:2"]}
  task = {"type": "worker", "index": 1}
  monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
  link = Link()
  monkeypatch.setattr(device_lib.hosts_lib, "Hosts", link.join)
  monkeypatch.setattr(
    device_lib.pjrt_devices,
    "connect",
    lambda platform, count, hosts: link.own.append((platform, count)) or devices_of_pjrt("cpu", 16),
  )
  monkeypatch.setattr(installed, "require", lambda platform: {"jax": "0.9"})
  device = device_lib.connect(name, facts=lambda: {"seed": name}, timeout=1.0)
  assert link.own == [own]
  assert link.joined[:2] == (("localhost:1", "localhost:2"), 1)
  assert link.joined[2] == {
    "seed": name,
    "the list of workers": "localhost:1, localhost:2",
    "the XLA devices": f"{own[1] or 'all'} of {own[0]}",
    "the version of jax": "0.9",
  }
  assert (device.replicas, device.local_replicas, device.hosts, device.host) == (16, 8, 2, 1)
  assert (device.is_multi_worker, device.is_chief, device.link) == (True, False, link)


def test_a_worker_without_devices_tells_the_others(monkeypatch):
  cluster = {"worker": ["localhost:3", "localhost:4"]}
  task = {"type": "worker", "index": 1}
  monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))

  def connect(platform, count, hosts):
    raise errors.SettingError("no TPU here.\nMore")

  link = Link()
  monkeypatch.setattr(device_lib.hosts_lib, "Hosts", link.join)
  monkeypatch.setattr(device_lib.pjrt_devices, "connect", connect)
  monkeypatch.setattr(installed, "require", lambda platform: {"jax": "0.9"})
  with pytest.raises(errors.SettingError, match="no TPU"):
    device_lib.connect("xla:8", timeout=2.0)
  assert link.left == ["it could not connect: no TPU here"]


class Link:
  """Stands in for Hosts, of two processes."""

  count, number = 2, 1

  def __init__(self):
    self.own, self.left = [], []

  def join(self, *arguments):
    self.joined = arguments
    return self

  def leave(self, why):
    self.left.append(why)


def test_a_device_is_made_once():
  assert device_lib.connect("cpu:8") is device_lib.connect("cpu:8")
  assert device_lib.connect("cpu") is not device_lib.connect("cpu:8")


def test_no_other_thread_makes_the_same_device_meanwhile(monkeypatch):
  monkeypatch.setattr(device_lib, "_connect", lambda *_: device_lib._lock.locked())
  assert device_lib.connect("cpu:8") is True


def test_devices_say_what_they_are():
  assert str(device_lib.connect("cpu")) == "cpu, 1 replica"
  assert str(device_lib.connect("cpu:8")) == "cpu, 8 replicas"


def test_virtual_cores_rehearse_a_tpu():
  assert device_lib.connect("cpu:8").resembles_tpu
  assert not device_lib.connect("cpu").resembles_tpu


@pytest.mark.parametrize(
  "name",
  [
    "",
    "CPU",
    "cpu:",
    "cpu:0",
    "cpu:x",
    "cpu:-1",
    "auto:2",
    "tpu:8",
    "v5e",
    "cpu 8",
    "gpu:0",
    "xla",
    "xla:0",
    "xla:gpu:0",
  ],
)
def test_names_that_there_are_not(name):
  with pytest.raises(
    errors.SettingError,
    match=f"--device={name}: expected auto, cpu, cpu:8, gpu, xla:8, xla:gpu, xla:gpu:N or ",
  ):
    device_lib.connect(name)


def test_more_cores_than_were_made_in_time():
  with pytest.raises(errors.SettingError) as raised:
    device_lib.connect("cpu:64")
  message = str(raised.value)
  assert "--device=cpu:64: TensorFlow has already started in this process with fewer" in message
  assert 'trainer.connect("cpu:64") before' in message


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_no_cpu():
  with pytest.raises(
    errors.SettingError,
    match=f"--device=gpu: .* found 0 GPUs.*{re.escape(installation.command('gpu'))}",
  ):
    device_lib.connect("gpu")


def test_several_gpus_are_xla_devices():
  expected = r"--device=gpu:2: gpu is one GPU.* For 2 GPUs use --device=xla:gpu:2, by PJRT"
  with pytest.raises(errors.SettingError, match=expected):
    device_lib.connect("gpu:2")


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="this machine has a GPU")
def test_auto_says_what_it_took_and_why(caplog):
  with caplog.at_level("INFO", logger="absl"):
    assert device_lib.connect("auto") is device_lib.connect("cpu")
  assert "--device=auto: cpu (no sign of a TPU, no GPU)" in caplog.text


@pytest.mark.parametrize(
  "plugin, hidden, platforms, kind",
  [
    ("jax-cuda13-plugin 0.11.2", None, None, "xla:gpu"),
    ("jax-cuda13-plugin 0.11.2", "0", "cuda,cpu", "xla:gpu"),
    ("jax-cuda13-plugin 0.11.2", "-1", None, "cpu"),
    ("jax-cuda13-plugin 0.11.2", None, "cpu", "cpu"),
    ("", None, None, "cpu"),
  ],
)
def test_auto_takes_gpus_that_pjrt_alone_can_use(monkeypatch, plugin, hidden, platforms, kind):
  gpu = nvidia_driver.Gpu("NVIDIA H100 80GB HBM3", 80 * 2**30, (9, 0))
  driver = nvidia_driver.Driver("580.159.04", (13, 0), (gpu,))
  monkeypatch.setattr(nvidia_driver, "read", lambda: driver)
  monkeypatch.setattr(installed, "cuda_plugin", lambda: plugin)
  for name, value in (("CUDA_VISIBLE_DEVICES", hidden), ("JAX_PLATFORMS", platforms)):
    monkeypatch.delenv(name, raising=False)
    if value is not None:
      monkeypatch.setenv(name, value)
  chosen, reason = device_lib.choose()
  assert chosen == kind
  if kind == "xla:gpu":
    assert reason == "1 GPU by jax-cuda13-plugin 0.11.2; no sign of a TPU"


# -------------------------------------------------------------- several workers


@pytest.mark.parametrize("name", ["cpu", "cpu:8"])
def test_devices_of_tensorflow_have_no_cluster(monkeypatch, name):
  cluster = {"worker": ["a:1", "b:1"]}
  config = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
  monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  expected = (
    "--device=cpu has no cluster, and TF_CONFIG has 2 workers: use --device=xla:1 .*xla:gpu"
  )
  with pytest.raises(errors.SettingError, match=expected):
    device_lib.connect(name)


@pytest.mark.parametrize("name", ["cpu", "xla:8"])
def test_an_evaluator_works_alone(monkeypatch, name):
  if name == "xla:8":
    pytest.importorskip("jax")
  config = {"cluster": {"worker": ["b:1", "c:1"]}, "task": {"type": "evaluator", "index": 0}}
  monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  device = device_lib.connect(name)
  assert (device.role, device.hosts, device.link, device.has_evaluator) == (
    "evaluator",
    1,
    None,
    True,
  )


def test_a_fork_of_a_process_that_is_connected_is_refused(monkeypatch):
  device_lib.connect("cpu")
  parent = os.getpid()
  monkeypatch.setattr(device_lib.os, "getpid", lambda: parent + 1)
  with pytest.raises(errors.SettingError, match=f"fork of process {parent} and would hang"):
    device_lib.connect("cpu")
