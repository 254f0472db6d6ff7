"""Why TensorFlow ignores the GPUs of this machine, in a sentence with the remedy.

    gpu_problems.find(nvidia_driver.read(), gpus_seen=0)

It asks the driver alone. It runs nothing on a GPU.
"""

import collections

import tensorflow as tf

from trainer.cli import installation
from trainer.devices import nvidia_driver, tensorflow_package


def find(driver: nvidia_driver.Driver | None, gpus_seen: int) -> str:
  """Returns a sentence with the problem and its remedy; "" if it finds none.

  Args:
    driver: the driver's answers; None without a sign of a GPU.
    gpus_seen: the number of GPUs that TensorFlow sees.
  """
  if gpus_seen or driver is None:
    return ""
  if driver.failure or not driver.gpus:
    return driver.failure
  build, package = tf.sysconfig.get_build_info(), tensorflow_package.installed()
  if not build.get("is_cuda_build"):
    return (
      f"{package} has no CUDA and cannot use {names(driver)}: {installation.command('xla-gpu')} "
      "brings jax's plug-in for --device=xla:gpu; or, in an environment of its own, "
      f"{installation.command('gpu')}."
    )
  return (
    f"{package} does not see {names(driver)}: {installation.command('gpu')} brings the libraries "
    f"of CUDA {build['cuda_version']}, the driver must run it, and CUDA_VISIBLE_DEVICES must not "
    "hide the GPUs. TensorFlow's own messages say which: python -m trainer.devices --debug."
  )


def names(driver: nvidia_driver.Driver) -> str:
  """Returns the names of the GPUs, alike ones once with their number; "" for none."""
  counts = collections.Counter(map(str, driver.gpus))
  return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())
