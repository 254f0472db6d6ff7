"""Why a GPU is not used is said in a sentence, with what to do."""

import pytest
import tensorflow as tf

from tests.trainer.devices.test_nvidia_driver import H100, K80
from trainer.cli import installation
from trainer.devices import gpu_problems, nvidia_driver, tensorflow_package

DRIVER = nvidia_driver.Driver("580.159.04", (13, 0), (H100,))
CUDA = {"is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9"}


@pytest.fixture(params=[CUDA])
def build(request, monkeypatch):
  """TensorFlow's build."""
  monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: request.param)
  installed = tensorflow_package.Installed({"tensorflow": "2.21.0"})
  monkeypatch.setattr(tensorflow_package, "installed", lambda: installed)


@pytest.mark.parametrize(
  ("build", "driver", "said"),
  [
    (
      {"is_cuda_build": False},
      DRIVER,
      "tensorflow 2.21.0 has no CUDA and cannot use NVIDIA H100 80GB HBM3 (80 GiB, "
      f"compute capability 9.0): {installation.command('xla-gpu')} brings jax's plug-in for "
      f"--device=xla:gpu; or, in an environment of its own, {installation.command('gpu')}.",
    ),
    (CUDA, DRIVER, f"does not see {H100}: {installation.command('gpu')} brings the libraries of "),
    (CUDA, DRIVER, "CUDA 12.5.1, the driver must run it, and CUDA_VISIBLE_DEVICES must not hide"),
    (CUDA, DRIVER, "python -m trainer.devices --debug"),
    (CUDA, nvidia_driver.Driver(failure="restart the machine."), "restart the machine."),
  ],
  indirect=["build"],
)
def test_what_is_wrong_is_said_with_what_to_do(build, driver, said):
  found = gpu_problems.find(driver, 0)
  assert said in found
  assert "\n" not in found


@pytest.mark.parametrize(
  ("driver", "seen"), [(None, 0), (DRIVER, 1), (nvidia_driver.Driver("580.159.04", (13, 0), ()), 0)]
)
def test_where_nothing_is_wrong_nothing_is_said(build, driver, seen):
  assert gpu_problems.find(driver, seen) == ""


def test_alike_gpus_are_named_once(build):
  driver = nvidia_driver.Driver("580.159.04", (13, 0), (H100, H100, K80))
  assert f"does not see 2 × {H100}, {K80}: " in gpu_problems.find(driver, 0)
