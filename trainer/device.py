"""Where a run computes: the only place that knows CPUs, GPUs and TPUs apart.

    device = connect("cpu:8")
    with device.strategy.scope(): ...

`cpu:8` makes eight virtual cores on the CPU: what a TPU board does, on any laptop, at a laptop's speed.
"""

import dataclasses
import functools
import re

import tensorflow as tf
from absl import logging

from trainer import errors

_NAME = re.compile(r"(auto|cpu|gpu|tpu)(?::(\d+))?")


@dataclasses.dataclass(frozen=True)
class Device:
  """A device that is ready.

  Attributes:
    kind: "cpu", "gpu" or "tpu".
    strategy: the tf.distribute.Strategy over its cores.
  """

  kind: str
  strategy: tf.distribute.Strategy

  @property
  def replicas(self):
    """Number of cores that take part, each with a batch of its own."""
    return self.strategy.num_replicas_in_sync

  @property
  def hosts(self):
    """Number of machines that read input."""
    return max(1, getattr(self.strategy.extended, "_num_workers", 1))

  def __str__(self):
    return self.kind if self.replicas == 1 else f"{self.kind}, {self.replicas} cores"


def connect(name="auto"):
  """Makes the device ready; the second call with one name gives the same device.

  Args:
    name: "auto" (a GPU if there is one, else the CPU), "cpu", "cpu:N" (N virtual cores), "gpu" or "gpu:N".

  Raises:
    SettingError: no such name, or no such device here.
  """
  match = _NAME.fullmatch(name)
  if not match or match[2] == "0" or (match[1] == "auto" and match[2]):
    raise errors.SettingError(f"--device={name}: expected auto, cpu, cpu:8, gpu, gpu:N or tpu.")
  kind, count = match[1], int(match[2] or 1)
  if kind == "auto":
    kind = "gpu" if tf.config.list_physical_devices("GPU") else "cpu"
    logging.info("--device=auto: %s", "a GPU was found" if kind == "gpu" else "no GPU was found; the CPU")
  return _connect(kind, count)


@functools.cache
def _connect(kind, count):
  if kind == "tpu":
    raise errors.SettingError("--device=tpu: TPUs are not supported yet; cpu:8 rehearses one on the CPU.")
  if kind == "gpu":
    found = len(tf.config.list_logical_devices("GPU"))
    if count > found:
      raise errors.SettingError(f"--device=gpu:{count}: {found} GPUs were found (tensorflow {tf.__version__}).")
  elif count > 1:
    _make_virtual_cores(count)
  devices = [f"/{kind}:{index}" for index in range(count)]
  return Device(kind, tf.distribute.OneDeviceStrategy(devices[0]) if count == 1 else tf.distribute.MirroredStrategy(devices))


def _make_virtual_cores(count):
  cpu = tf.config.list_physical_devices("CPU")[0]
  made = tf.config.get_logical_device_configuration(cpu)
  if made is None or len(made) < count:
    try:
      tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError as error:
      raise errors.SettingError(
          f"--device=cpu:{count}: TensorFlow has already started in this process with fewer virtual cores; connect to the device first.") from error
