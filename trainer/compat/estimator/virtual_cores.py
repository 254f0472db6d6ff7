"""Makes the virtual cores of OCTET_DEVICE=cpu:8 before the program can start TensorFlow.

A program may list devices or make tensors before it makes an Estimator. Both start TensorFlow, and
a started TensorFlow makes no virtual cores.
"""

import contextlib
import os
import re

# The device of a run. Overrides the program's own choice.
DEVICE_VARIABLE = "OCTET_DEVICE"


def prepare() -> None:
  """Configures the cores of OCTET_DEVICE, without starting TensorFlow."""
  named = re.fullmatch(r"cpu:([1-9]\d*)", os.environ.get(DEVICE_VARIABLE, ""))
  if named is None or named[1] == "1":
    return
  import tensorflow as tf

  cpu = tf.config.list_physical_devices("CPU")[0]
  if tf.config.get_logical_device_configuration(cpu) is None:
    with contextlib.suppress(RuntimeError):  # trainer.connect reports missing cores
      cores = [tf.config.LogicalDeviceConfiguration()] * int(named[1])
      tf.config.set_logical_device_configuration(cpu, cores)
