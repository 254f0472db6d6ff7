"""Why TensorFlow ignores the GPUs of this machine, or will fail on them, and the remedy.

    gpu_problems.find(nvidia_driver.read(), gpus_seen=0)

It compares the driver's answers, the build of this TensorFlow, and the installed libraries of CUDA.
It runs nothing on a GPU.
"""

import collections
import ctypes
import dataclasses
import importlib.metadata
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf
from packaging import requirements

from trainer.cli import installation
from trainer.devices import nvidia_driver, tensorflow_package

# The first drivers (Linux) for each major version of CUDA; they run all its minor versions.
# Source: https://docs.nvidia.com/deploy/cuda-compatibility, "Minor version compatibility".
_FIRST_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}

# A wheel of CUDA → the library in it that TensorFlow loads. nvidia-cuda-nvcc-cu12 is missing, since
# it has ptxas and no library.
_LIBRARIES = {
  "nvidia-cublas-cu12": "libcublas.so.12",
  "nvidia-cuda-cupti-cu12": "libcupti.so.12",
  "nvidia-cuda-nvrtc-cu12": "libnvrtc.so.12",
  "nvidia-cuda-runtime-cu12": "libcudart.so.12",
  "nvidia-cudnn-cu12": "libcudnn.so.9",
  "nvidia-cufft-cu12": "libcufft.so.11",
  "nvidia-curand-cu12": "libcurand.so.10",
  "nvidia-cusolver-cu12": "libcusolver.so.11",
  "nvidia-cusparse-cu12": "libcusparse.so.12",
  "nvidia-nccl-cu12": "libnccl.so.2",
  "nvidia-nvjitlink-cu12": "libnvJitLink.so.12",
}


@dataclasses.dataclass(frozen=True)
class Wheel:
  """A wheel of CUDA that TensorFlow's extra [and-cuda] requires.

  Attributes:
    name: such as "nvidia-cudnn-cu12".
    wanted: the required versions, such as "<10.0,>=9.3.0.75".
    version: the installed version; "" for none.
    fits: whether the installed version is a required one.
  """

  name: str
  wanted: str
  version: str
  fits: bool


def find(
  driver: nvidia_driver.Driver | None,
  gpus_seen: int,
  build: Mapping[str, Any] | None = None,
  package: str = "",
  wheels: Iterable[Wheel] | None = None,
  load: Callable[[str], Any] = ctypes.CDLL,
  environment: Mapping[str, str] = os.environ,
) -> str:
  """Returns a sentence with the problem and its remedy; "" if it finds none.

  Args:
    driver: the driver's answers; None without a sign of a GPU.
    gpus_seen: the number of GPUs that TensorFlow sees.
    build: TensorFlow's build; default: tf.sysconfig.get_build_info().
    package: the installed TensorFlow, such as "tensorflow 2.21.0"; default: the installed one.
    wheels: the wheels of CUDA; default: the result of `wheels_of_cuda`.
    load: loads a shared library by its name, or raises OSError.
    environment: the environment variables.
  """
  if driver is None or driver.failure:
    return driver.failure if driver and not gpus_seen else ""
  build = tf.sysconfig.get_build_info() if build is None else build
  package = package or str(tensorflow_package.installed())
  if not build.get("is_cuda_build"):
    return "" if not driver.gpus or gpus_seen else _built_without_cuda(package, driver)
  wheels = wheels_of_cuda() if wheels is None else wheels
  if gpus_seen:
    return _wheels_problem(package, wheels, load)
  return (
    _hidden(driver, environment)
    or _driver_too_old(package, build, driver)
    or _wheels_problem(package, wheels, load)
    or _gpu_too_old(package, build, driver)
    or (
      f"{package} does not see {names(driver)}, and neither the driver ({driver.version}) nor the "
      "libraries of CUDA say why: TensorFlow's own messages may, python -m trainer.devices --debug."
      if driver.gpus
      else ""
    )
  )


def wheels_of_cuda(
  distribution: Callable[[str], importlib.metadata.Distribution] = importlib.metadata.distribution,
) -> list[Wheel]:
  """Returns the wheels that the installed package `tensorflow` requires in its [and-cuda].

  Args:
    distribution: returns a package's metadata, or raises PackageNotFoundError.
  """
  try:
    wanted = distribution("tensorflow").requires or ()
  except importlib.metadata.PackageNotFoundError:  # tensorflow-cpu, or a build of one's own
    return []
  found = []
  for text in wanted:
    asked = requirements.Requirement(text)
    if not asked.name.startswith("nvidia-") or not (
      asked.marker is None or asked.marker.evaluate({"extra": "and-cuda"})
    ):
      continue
    try:
      version = distribution(asked.name).version
    except importlib.metadata.PackageNotFoundError:
      version = ""
    fits = bool(version) and asked.specifier.contains(version, prereleases=True)
    found.append(Wheel(asked.name, str(asked.specifier), version, fits))
  return found


def names(driver: nvidia_driver.Driver) -> str:
  """Returns the names of the GPUs, alike ones once with their number; "" for none."""
  counts = collections.Counter(map(str, driver.gpus))
  return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def _built_without_cuda(package, driver):
  return (
    f"{package} has no CUDA and cannot use {names(driver)}: {installation.command('xla-gpu')} "
    "brings jax's plug-in for --device=xla:gpu; or, in an environment of its own, "
    f"{installation.command('gpu')}."
  )


def _hidden(driver, environment):
  visible = environment.get("CUDA_VISIBLE_DEVICES")
  if not driver.gpus or visible is None:
    return ""
  first = visible.split(",")[0].strip()
  if first and not (first.lstrip("-").isdigit() and not 0 <= int(first) < len(driver.gpus)):
    return ""
  return (
    f"the environment variable CUDA_VISIBLE_DEVICES={visible!r} hides {names(driver)}: unset it, "
    + (
      "or set it to 0."
      if len(driver.gpus) == 1
      else f"or set it to numbers from 0 to {len(driver.gpus) - 1}."
    )
  )


def _driver_too_old(package, build, driver):
  wanted = _version(build.get("cuda_version", ""))
  if not wanted or driver.cuda[0] >= wanted[0]:
    return ""
  first = _FIRST_DRIVERS.get(wanted[0])
  return (
    f"the NVIDIA driver {driver.version} runs CUDA {driver.cuda[0]}.{driver.cuda[1]} at the most, "
    f"and {package} needs CUDA {build['cuda_version']}: install "
    + (f"driver {first} or newer." if first else f"a driver that runs CUDA {wanted[0]}.")
  )


def _wheels_problem(package, wheels, load):
  """Returns the missing libraries of CUDA, and the wheels with a wrong version."""
  missing, others = [], []
  for wheel in wheels:
    library = _LIBRARIES.get(wheel.name)
    if wheel.version and not wheel.fits:
      others.append(f"{wheel.name} {wheel.version} (wanted: {wheel.wanted})")
    elif not wheel.version and library and not _loads(library, load):
      missing.append(f"{library} ({wheel.name})")
  if missing:
    return (
      f"{package} does not find libraries of CUDA: {', '.join(missing)}: "
      f"{installation.command('gpu')} brings them; or name their folder in LD_LIBRARY_PATH."
    )
  if others:
    return (
      f"{package} does not fit the installed libraries of CUDA, perhaps from another package: "
      f"{', '.join(others)}: in an environment of its own, {installation.command('gpu')}."
    )
  return ""


def _gpu_too_old(package, build, driver):
  built_for = [
    _capability(text) for text in build.get("cuda_compute_capabilities", ()) if _capability(text)
  ]
  if not built_for or not driver.gpus:
    return ""
  first = min(built_for)
  if any(gpu.compute_capability >= first for gpu in driver.gpus):
    return ""
  return (
    f"{package} runs on GPUs from compute capability {first[0]}.{first[1]} on, and this machine "
    f"has {names(driver)}: use another GPU, or --device=cpu."
  )


def _loads(library, load):
  """Whether the system's loader finds a library by itself, as in images with CUDA installed."""
  try:
    load(library)
  except OSError:
    return False
  return True


def _version(text):
  return tuple(int(number) for number in re.findall(r"\d+", text))


def _capability(text):
  """Returns "sm_60", "compute_90" or "9.0" as a pair of ints, None for anything else."""
  match = re.search(r"(\d+)\.?(\d)\D?$", text)
  return (int(match[1]), int(match[2])) if match else None
