"""GPUs that are not there: programs are traced as for them, and TensorFlow computes them on the CPU
where it can.
"""

import contextlib
from unittest import mock

import tensorflow as tf

from trainer.devices import device as device_lib

NAME = "Made-up 3000"


class Gpus(contextlib.ExitStack):
  """While open, TensorFlow sees so many GPUs.

  Attributes:
    memory_growth: what was set, a pair of name and setting a call.
    late: whether memory growth can be set no more.
    arithmetic: the calls that set how GPUs compute, pairs of what and the setting.
  """

  def __init__(self, count):
    super().__init__()
    self._found = [
      tf.config.PhysicalDevice(f"/physical_device:GPU:{index}", "GPU") for index in range(count)
    ]
    self.memory_growth = []
    self.late = False
    self.arithmetic = []

  def __enter__(self):
    real = tf.config.list_physical_devices
    experimental = tf.config.experimental
    for owner, name, stand_in in (
      (
        tf.config,
        "list_physical_devices",
        lambda kind=None: self._found if kind == "GPU" else real(kind),
      ),
      (experimental, "set_memory_growth", self._set_memory_growth),
      (experimental, "get_device_details", lambda gpu: {"device_name": NAME}),
      (
        experimental,
        "enable_tensor_float_32_execution",
        lambda setting: self.arithmetic.append(("tf32", setting)),
      ),
      (experimental, "enable_op_determinism", lambda: self.arithmetic.append(("bits", True))),
    ):
      self.enter_context(mock.patch.object(owner, name, stand_in))
    device_lib._connect.cache_clear()
    self.callback(device_lib._connect.cache_clear)
    return self

  def _set_memory_growth(self, gpu, setting):
    if self.late:
      raise RuntimeError("Physical devices cannot be modified after being initialized")
    self.memory_growth.append((gpu.name, setting))
