"""Why TensorFlow ignores the GPUs of this machine, and the remedy.

    gpu_problems.find(nvidia_driver.read(), gpus_seen=0)

It compares the driver's answers with the build of this TensorFlow. It runs nothing on a GPU.
"""

import collections
import os
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer.cli import installation
from trainer.devices import nvidia_driver, tensorflow_package


def find(
  driver: nvidia_driver.Driver | None,
  gpus_seen: int,
  build: Mapping[str, Any] | None = None,
  package: str = "",
  environment: Mapping[str, str] = os.environ,
) -> str:
  """Returns a sentence with the problem and its remedy; "" if it finds none.

  Args:
    driver: the driver's answers; None without a sign of a GPU.
    gpus_seen: the number of GPUs that TensorFlow sees.
    build: TensorFlow's build; default: tf.sysconfig.get_build_info().
    package: the installed TensorFlow, such as "tensorflow 2.21.0"; default: the installed one.
    environment: the environment variables.
  """
  if gpus_seen or driver is None:
    return ""
  if driver.failure or not driver.gpus:
    return driver.failure
  build = tf.sysconfig.get_build_info() if build is None else build
  package = package or str(tensorflow_package.installed())
  if not build.get("is_cuda_build"):
    return (
      f"{package} has no CUDA and cannot use {names(driver)}: {installation.command('xla-gpu')} "
      "brings jax's plug-in for --device=xla:gpu; or, in an environment of its own, "
      f"{installation.command('gpu')}."
    )
  return (
    _hidden(driver, environment)
    or _driver_too_old(package, build, driver)
    or (
      f"{package} does not see {names(driver)}: it lacks a library of CUDA, which "
      f"{installation.command('gpu')} brings, or the GPU is older than this build supports. "
      "TensorFlow's own messages say which: python -m trainer.devices --debug."
    )
  )


def names(driver: nvidia_driver.Driver) -> str:
  """Returns the names of the GPUs, alike ones once with their number; "" for none."""
  counts = collections.Counter(map(str, driver.gpus))
  return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def _hidden(driver, environment):
  visible = environment.get("CUDA_VISIBLE_DEVICES")
  if visible is None:
    return ""
  first = visible.split(",")[0].strip()
  if first and not (first.lstrip("-").isdigit() and not 0 <= int(first) < len(driver.gpus)):
    return ""
  return (
    f"the environment variable CUDA_VISIBLE_DEVICES={visible!r} hides {names(driver)}: unset it, "
    f"or set it to numbers from 0 to {len(driver.gpus) - 1}."
  )


def _driver_too_old(package, build, driver):
  wanted = re.match(r"\d+", build.get("cuda_version", ""))
  if not wanted or driver.cuda[0] >= int(wanted[0]):
    return ""
  return (
    f"the NVIDIA driver {driver.version} runs CUDA {driver.cuda[0]}.{driver.cuda[1]} at the most, "
    f"and {package} needs CUDA {build['cuda_version']}: install a driver that runs CUDA "
    f"{wanted[0]}."
  )
