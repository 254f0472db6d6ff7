"""Why a GPU is not used is said in a sentence, with what to do."""

import importlib.metadata
import types

import pytest

from tests.trainer.devices.test_nvidia_driver import H100, K80
from trainer.cli import installation
from trainer.devices import gpu_problems, nvidia_driver

DRIVER = nvidia_driver.Driver("580.159.04", (13, 0), (H100,))
BUILD = {
  "is_cuda_build": True,
  "cuda_version": "12.5.1",
  "cudnn_version": "9",
  "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"],
}
WHEELS = [
  gpu_problems.Wheel("nvidia-cudnn-cu12", "<10.0,>=9.3.0.75", "9.24.0.43", True),
  gpu_problems.Wheel("nvidia-nccl-cu12", "<3.0,>=2.25.1", "2.32.3", True),
]
MISSING = [
  gpu_problems.Wheel("nvidia-cudnn-cu12", "<10.0,>=9.3.0.75", "", False),
  gpu_problems.Wheel("nvidia-cublas-cu12", "<13.0,>=12.5.3.2", "", False),
  *WHEELS[1:],
]
OLD = [gpu_problems.Wheel("nvidia-cudnn-cu12", "<10.0,>=9.3.0.75", "9.1.0.70", False), *WHEELS[1:]]


def no_library(name):
  raise OSError(name)


def find(
  driver=DRIVER,
  seen=0,
  build=BUILD,
  package="tensorflow 2.21.0",
  wheels=WHEELS,
  load=no_library,
  **env,
):
  return gpu_problems.find(driver, seen, build, package, wheels, load, env)


@pytest.mark.parametrize(
  "found, said",
  [
    (
      find(build={"is_cuda_build": False}, package="tensorflow-cpu 2.21.0", wheels=[]),
      "tensorflow-cpu 2.21.0 has no CUDA and cannot use NVIDIA H100 80GB HBM3 (80 GiB, "
      f"compute capability 9.0): {installation.command('xla-gpu')} brings jax's plug-in for "
      f"--device=xla:gpu; or, in an environment of its own, {installation.command('gpu')}.",
    ),
    (
      find(nvidia_driver.Driver("470.182.03", (11, 4), (H100,))),
      "driver 470.182.03 runs CUDA 11.4 at the most, and tensorflow 2.21.0 needs CUDA "
      "12.5.1: install driver 525.60.13 or newer.",
    ),
    (
      find(wheels=MISSING),
      "does not find libraries of CUDA: libcudnn.so.9 (nvidia-cudnn-cu12), "
      f"libcublas.so.12 (nvidia-cublas-cu12): {installation.command('gpu')} brings them",
    ),
    (find(seen=1, wheels=MISSING), "libraries of CUDA: libcudnn.so.9"),
    (
      find(seen=1, wheels=OLD),
      "does not fit the installed libraries of CUDA, perhaps from another package: "
      "nvidia-cudnn-cu12 9.1.0.70 (wanted: <10.0,>=9.3.0.75)",
    ),
    (
      find(nvidia_driver.Driver("580.159.04", (13, 0), (K80,))),
      "runs on GPUs from compute capability 6.0 on, and this machine has Tesla K80",
    ),
    (find(CUDA_VISIBLE_DEVICES=""), "CUDA_VISIBLE_DEVICES='' hides NVIDIA H100"),
    (find(CUDA_VISIBLE_DEVICES="-1"), "CUDA_VISIBLE_DEVICES='-1' hides NVIDIA H100"),
    (
      find(CUDA_VISIBLE_DEVICES="1"),
      "hides NVIDIA H100 80GB HBM3 (80 GiB, compute capability 9.0): unset it, or set it to 0.",
    ),
    (find(CUDA_VISIBLE_DEVICES="0"), "TensorFlow's own messages may"),
    (find(), "does not see NVIDIA H100"),
    (find(nvidia_driver.Driver(failure="restart the machine.")), "restart the machine."),
  ],
)
def test_what_is_wrong_is_said_with_what_to_do(found, said):
  assert said in found
  assert "\n" not in found


@pytest.mark.parametrize(
  "found",
  [
    find(None),
    find(seen=1),
    find(nvidia_driver.Driver("580.159.04", (13, 0), ())),
    find(seen=1, wheels=MISSING, load=lambda name: name),  # an image that has CUDA installed
    find(seen=1, build={"is_cuda_build": False}, wheels=[]),  # a GPU of another maker, say
  ],
)
def test_where_nothing_is_wrong_nothing_is_said(found):
  assert found == ""


def test_alike_gpus_are_named_once():
  driver = nvidia_driver.Driver("580.159.04", (13, 0), (H100, H100, K80))
  said = find(driver, CUDA_VISIBLE_DEVICES="")
  assert f"hides 2 × {H100}, {K80}: unset it, or set it to numbers from 0 to 2." in said


def test_wheels_are_those_that_tensorflow_asks_for():
  versions = {"tensorflow": "2.21.0", "nvidia-cudnn-cu12": "9.1.0.70"}
  wanted = [
    "numpy>=1.26.0",
    'nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',
    'nvidia-nccl-cu12<3.0,>=2.25.1; extra == "and-cuda"',
    'nvidia-other-cu12; extra == "other"',
  ]

  def distribution(name):
    if name not in versions:
      raise importlib.metadata.PackageNotFoundError(name)
    return types.SimpleNamespace(version=versions[name], requires=wanted)

  assert gpu_problems.wheels_of_cuda(distribution) == [
    gpu_problems.Wheel("nvidia-cudnn-cu12", "<10.0,>=9.3.0.75", "9.1.0.70", False),
    gpu_problems.Wheel("nvidia-nccl-cu12", "<3.0,>=2.25.1", "", False),
  ]
  del versions["tensorflow"]
  assert gpu_problems.wheels_of_cuda(distribution) == []


@pytest.mark.parametrize(
  "text, capability",
  [("sm_60", (6, 0)), ("compute_90", (9, 0)), ("sm_120", (12, 0)), ("sm_90a", (9, 0)), ("", None)],
)
def test_compute_capabilities_are_read(text, capability):
  assert gpu_problems._capability(text) == capability
