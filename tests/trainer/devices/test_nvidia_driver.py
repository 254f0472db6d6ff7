"""What the driver of GPUs says, by a stand-in for its library."""

import ctypes
import re

import pynvml
import pytest

from trainer.devices import nvidia_driver

_TEXTS = dict(pynvml.NVMLError._errcode_to_string)

H100 = nvidia_driver.Gpu("NVIDIA H100 80GB HBM3", 81559 * 2**20, (9, 0))
K80 = nvidia_driver.Gpu("Tesla K80", 12 * 2**30, (3, 7))


class Library:
  """NVML of a machine with these GPUs; `fails` maps a function's name to what it returns.

  It has the functions of the C library, which nvidia-ml-py calls.
  """

  def __init__(self, gpus=(), cuda=13000, fails=()):
    self._gpus = gpus
    self._cuda = cuda
    self._fails = dict(fails)
    self.closed = False

    def error_string(status):
      return f"status {status}".encode()

    self.nvmlErrorString = error_string

  def nvmlInitWithFlags(self, flags):
    return self._fails.get("nvmlInitWithFlags", 0)

  def nvmlShutdown(self):
    self.closed = True
    return 0

  def nvmlSystemGetDriverVersion(self, text, size):
    text.value = b"580.159.04"
    return 0

  def nvmlSystemGetCudaDriverVersion_v2(self, version):
    version._obj.value = self._cuda
    return self._fails.get("nvmlSystemGetCudaDriverVersion_v2", 0)

  def nvmlDeviceGetCount_v2(self, count):
    count._obj.value = len(self._gpus)
    return 0

  def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
    handle._obj.contents = ctypes.cast(index.value + 1, type(handle._obj)).contents
    return 0

  def _of(self, handle):
    return self._gpus[_address(handle) - 1]

  def nvmlDeviceGetName(self, handle, text, size):
    text.value = self._of(handle).name.encode()
    return 0

  def nvmlDeviceGetMemoryInfo(self, handle, memory):
    memory._obj.total = self._of(handle).memory
    return 0

  def nvmlDeviceGetCudaComputeCapability(self, handle, major, minor):
    major._obj.value, minor._obj.value = self._of(handle).compute_capability
    return 0


def _address(handle):
  """A handle is an address; those here are counted from 1."""
  return ctypes.cast(handle, ctypes.c_void_p).value


@pytest.fixture
def install(monkeypatch):
  """Returns a function that has nvidia-ml-py call a Library, and returns `load` for `read`."""

  def install(library):
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml.NVMLError, "_errcode_to_string", dict(_TEXTS))
    return lambda name: library

  return install


def no_library(name):
  assert name == "libnvidia-ml.so.1"
  raise OSError(name)


def pci_devices(folder, *devices):
  """A glob of made-up PCI devices, each (vendor, class)."""
  for index, (vendor, kind) in enumerate(devices):
    (folder / str(index)).mkdir()
    (folder / str(index) / "vendor").write_text(f"{vendor}\n")
    (folder / str(index) / "class").write_text(f"{kind}\n")
  return str(folder / "*")


def test_what_it_says(install, tmp_path):
  library = Library([H100, K80], cuda=12080)
  driver = nvidia_driver.read(install(library), pci_devices(tmp_path))
  assert driver == nvidia_driver.Driver("580.159.04", (12, 8), (H100, K80))
  assert str(driver.gpus[0]) == "NVIDIA H100 80GB HBM3 (80 GiB, compute capability 9.0)"
  assert library.closed


@pytest.mark.parametrize(
  "function, status, said",
  [
    ("nvmlInitWithFlags", 18, "different versions.*restart the machine"),
    ("nvmlInitWithFlags", 4, "may not open the NVIDIA GPUs: add the user"),
    ("nvmlInitWithFlags", 15, "does not answer: GPU is lost"),
    ("nvmlInitWithFlags", 997, "does not answer: status 997"),
    ("nvmlSystemGetCudaDriverVersion_v2", 12, r"lacks.*libcuda.so.1.*DRIVER_CAPABILITIES"),
  ],
)
def test_a_driver_that_does_not_answer_is_said(install, tmp_path, function, status, said):
  library = Library([H100], fails={function: status})
  driver = nvidia_driver.read(install(library), pci_devices(tmp_path))
  assert not driver.gpus
  assert re.search(said, driver.failure)


def test_a_gpu_without_its_driver_is_found_on_the_bus(install, tmp_path):
  bus = pci_devices(tmp_path, ("0x8086", "0x030000"), ("0x10de", "0x030200"))
  assert "no driver for it (libnvidia-ml.so.1)" in nvidia_driver.read(no_library, bus).failure
  asleep = install(Library(fails={"nvmlInitWithFlags": 9}))
  assert "but has not loaded it" in nvidia_driver.read(asleep, bus).failure


def test_no_sign_of_a_gpu(install, tmp_path):
  bus = pci_devices(tmp_path, ("0x8086", "0x030000"), ("0x10de", "0x020000"))  # a network card
  assert nvidia_driver.read(no_library, bus) is None
  assert nvidia_driver.read(install(Library(fails={"nvmlInitWithFlags": 9})), bus) is None


@pytest.mark.parametrize(
  ("environment", "expected"),
  [
    ({}, None),
    ({"CUDA_VISIBLE_DEVICES": ""}, []),
    ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
    ({"CUDA_VISIBLE_DEVICES": "3, GPU-8932f937"}, ["3", "GPU-8932f937"]),
  ],
)
def test_the_environment_names_the_visible_gpus(environment, expected):
  assert nvidia_driver.visible(environment) == expected
