"""Reads this machine's GPUs from the NVIDIA driver, without TensorFlow and without a process.

    driver = nvidia_driver.read()
    driver.gpus[0].name, driver.version, driver.cuda

The driver answers through NVML, its management library (libnvidia-ml.so.1), which `nvidia-smi` uses
too: https://docs.nvidia.com/deploy/nvml-api. NVIDIA's package
nvidia-ml-py calls it.
"""

import contextlib
import ctypes
import dataclasses
import glob
import os
from collections.abc import Callable, Mapping
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"

# Of PCI devices: NVIDIA's number, and how the classes of GPUs begin (VGA and 3D controllers).
_PCI_DEVICES = "/sys/bus/pci/devices/*"
_PCI_VENDOR = "0x10de"
_PCI_CLASSES = ("0x0300", "0x0302")

# Values of nvmlReturn_t with a message of their own. They alone are no reason to import the
# package.
_NO_PERMISSION = 4
_NOT_LOADED = 9
_NO_LIBRARY = 12
_VERSIONS_DIFFER = 18

_FAILURES = {
  _NO_PERMISSION: (
    "this user may not open the NVIDIA GPUs: add the user to the group that owns /dev/nvidia0, or, "
    "in a container, start it with its GPUs (docker run --gpus=all)."
  ),
  _NOT_LOADED: (
    "this machine has an NVIDIA driver, but has not loaded it: run sudo modprobe nvidia, or "
    "restart the machine; after an update of the kernel, install the driver again."
  ),
  _NO_LIBRARY: (
    "the NVIDIA driver lacks its library for CUDA (libcuda.so.1): in a container, start it with "
    "--gpus=all and NVIDIA_DRIVER_CAPABILITIES=compute,utility; else install the whole driver."
  ),
  _VERSIONS_DIFFER: (
    "the NVIDIA driver's library and its kernel module have different versions, as after an update "
    "without a restart: restart the machine."
  ),
}


@dataclasses.dataclass(frozen=True)
class Gpu:
  """A GPU as the driver describes it.

  Attributes:
    name: such as "NVIDIA H100 80GB HBM3".
    memory: its memory in bytes.
    compute_capability: such as (9, 0).
  """

  name: str
  memory: int
  compute_capability: tuple[int, int]

  def __str__(self) -> str:
    capability = ".".join(map(str, self.compute_capability))
    return f"{self.name} ({self.memory / 2**30:.0f} GiB, compute capability {capability})"


@dataclasses.dataclass(frozen=True)
class Driver:
  """The driver's answers.

  Attributes:
    version: such as "580.159.04"; "" without an answer.
    cuda: the newest CUDA that it runs, such as (13, 0); (0, 0) without an answer.
    gpus: all GPUs of this machine, regardless of CUDA_VISIBLE_DEVICES.
    failure: the problem and its remedy, if there seems to be a GPU and the driver does not answer;
      otherwise "".
  """

  version: str = ""
  cuda: tuple[int, int] = (0, 0)
  gpus: tuple[Gpu, ...] = ()
  failure: str = ""


def visible(environment: Mapping[str, str] = os.environ) -> list[str] | None:
  """Returns the GPUs that CUDA_VISIBLE_DEVICES names; None if it is not set."""
  names = environment.get("CUDA_VISIBLE_DEVICES")
  if names is None:
    return None
  return [name.strip() for name in names.split(",") if name.strip() not in ("", "-1")]


def read(
  load: Callable[[str], Any] = ctypes.CDLL, pci_devices: str = _PCI_DEVICES
) -> Driver | None:
  """Reads the driver.

  Args:
    load: loads a shared library by its name, or raises OSError.
    pci_devices: glob of the folders of PCI devices.

  Returns:
    None if there is no sign of an NVIDIA GPU.
  """
  try:
    load(_LIBRARY)
  except OSError:
    if not _on_pci_bus(pci_devices):
      return None
    return Driver(
      failure=f"this machine has an NVIDIA GPU and no driver for it ({_LIBRARY}): install the "
      "NVIDIA driver, or, in a container, start it with the machine's GPUs (docker run --gpus=all; "
      "needs the NVIDIA Container Toolkit)."
    )
  import pynvml  # only where there is a driver to ask

  try:
    return _ask(pynvml)
  except pynvml.NVMLError as error:
    if error.value == _NOT_LOADED and not _on_pci_bus(pci_devices):
      return None  # The library exists, as in many images, and there is no GPU.
    return Driver(
      failure=_FAILURES.get(error.value, f"the NVIDIA driver does not answer: {error}.")
    )


@contextlib.contextmanager
def _session(nvml):
  nvml.nvmlInit()
  try:
    yield
  finally:
    nvml.nvmlShutdown()


def _handles(nvml):
  return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def _ask(nvml):
  with _session(nvml):
    version = nvml.nvmlSystemGetDriverVersion()
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    gpus = tuple(
      Gpu(
        nvml.nvmlDeviceGetName(gpu),
        nvml.nvmlDeviceGetMemoryInfo(gpu).total,
        nvml.nvmlDeviceGetCudaComputeCapability(gpu),
      )
      for gpu in _handles(nvml)
    )
  return Driver(version, (cuda // 1000, cuda % 1000 // 10), gpus)


def _on_pci_bus(pci_devices):
  return any(
    _first_line(os.path.join(folder, "vendor")) == _PCI_VENDOR
    and _first_line(os.path.join(folder, "class")).startswith(_PCI_CLASSES)
    for folder in glob.glob(pci_devices)
  )


def _first_line(path):
  try:
    with open(path) as file:
      return file.readline().strip()
  except OSError:  # A device that went away meanwhile.
    return ""
