"""Why a GPU is not used is said in a sentence, with what to do."""

import pytest

from tests.trainer.devices.test_nvidia_driver import H100, K80
from trainer.cli import installation
from trainer.devices import gpu_problems, nvidia_driver

DRIVER = nvidia_driver.Driver("580.159.04", (13, 0), (H100,))
BUILD = {"is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9"}


def find(driver=DRIVER, seen=0, build=BUILD, package="tensorflow 2.21.0", **env):
  return gpu_problems.find(driver, seen, build, package, env)


@pytest.mark.parametrize(
  "found, said",
  [
    (
      find(build={"is_cuda_build": False}, package="tensorflow-cpu 2.21.0"),
      "tensorflow-cpu 2.21.0 has no CUDA and cannot use NVIDIA H100 80GB HBM3 (80 GiB, "
      f"compute capability 9.0): {installation.command('xla-gpu')} brings jax's plug-in for "
      f"--device=xla:gpu; or, in an environment of its own, {installation.command('gpu')}.",
    ),
    (
      find(nvidia_driver.Driver("470.182.03", (11, 4), (H100,))),
      "driver 470.182.03 runs CUDA 11.4 at the most, and tensorflow 2.21.0 needs CUDA "
      "12.5.1: install a driver that runs CUDA 12.",
    ),
    (find(CUDA_VISIBLE_DEVICES=""), "CUDA_VISIBLE_DEVICES='' hides NVIDIA H100"),
    (find(CUDA_VISIBLE_DEVICES="-1"), "CUDA_VISIBLE_DEVICES='-1' hides NVIDIA H100"),
    (
      find(CUDA_VISIBLE_DEVICES="1"),
      "hides NVIDIA H100 80GB HBM3 (80 GiB, compute capability 9.0): unset it, or set it to "
      "numbers from 0 to 0.",
    ),
    (find(CUDA_VISIBLE_DEVICES="0"), "python -m trainer.devices --debug"),
    (find(), f"does not see {H100}: it lacks a library of CUDA, which"),
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
    find(seen=1, build={"is_cuda_build": False}),  # a GPU of another maker, say
  ],
)
def test_where_nothing_is_wrong_nothing_is_said(found):
  assert found == ""


def test_alike_gpus_are_named_once():
  driver = nvidia_driver.Driver("580.159.04", (13, 0), (H100, H100, K80))
  said = find(driver, CUDA_VISIBLE_DEVICES="")
  assert f"hides 2 × {H100}, {K80}: unset it, or set it to numbers from 0 to 2." in said
