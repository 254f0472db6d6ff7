"""`gpu` with GPUs that are not there: what is asked of TensorFlow, and what it would compute."""

import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config as tensorflow_config

import trainer
from tests import fake_gpus
from tests.trainer import programs
from trainer import errors
from trainer.cli import installation
from trainer.devices import device as device_lib
from trainer.devices import nvidia_driver


@pytest.fixture
def two_gpus(monkeypatch):
  monkeypatch.delenv("TF_CONFIG", raising=False)
  with fake_gpus.Gpus(2) as found:
    yield found


def test_one_gpu_of_several(two_gpus):
  device = device_lib.connect("gpu")
  assert (device.kind, device.replicas, device.local_replicas) == ("gpu", 1, 1)
  assert isinstance(device.strategy, tf.distribute.OneDeviceStrategy)
  assert not device.uses_cpu_kernels(True)
  assert [name[-5:] for name in device.strategy.extended.worker_devices] == ["GPU:0"]
  assert device_lib.connect("gpu:1") is device_lib.connect("auto") is device


def test_a_gpu_that_tensorflow_does_not_see_is_said(monkeypatch):
  gpu = nvidia_driver.Gpu("NVIDIA H100", 80 * 2**30, (9, 0))
  driver = nvidia_driver.Driver("580.159.04", (13, 0), (gpu,))
  monkeypatch.setattr(nvidia_driver, "read", lambda: driver)
  monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: {"is_cuda_build": False})
  with fake_gpus.Gpus(0):
    why = "no CUDA and cannot use NVIDIA H100 .*" + re.escape(installation.command("gpu"))
    with pytest.raises(errors.SettingError, match=f"--device=gpu: .* found 0 GPUs: .*{why}"):
      device_lib.connect("gpu")
    kind, reason = device_lib.choose()
    assert kind == "cpu"
    assert "no usable GPU: " in reason
    assert "has no CUDA" in reason


@pytest.mark.parametrize("before", [None, "true"])
@pytest.mark.parametrize("setting", [True, False])
def test_memory_growth_is_set_for_all_whatever_the_device(two_gpus, monkeypatch, setting, before):
  monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # as a command of Octet does
  if before is None:
    monkeypatch.delenv("TF_FORCE_GPU_ALLOW_GROWTH")
  device_lib.connect("cpu", gpu=trainer.GPUConfig(memory_growth=setting))
  assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == str(setting).lower()
  assert two_gpus.memory_growth == [(f"/physical_device:GPU:{i}", setting) for i in range(2)]


def test_memory_growth_that_comes_too_late_is_said(two_gpus, caplog):
  two_gpus.late = True
  device_lib.connect("gpu")
  assert "GPUConfig.memory_growth = True comes too late" in caplog.text


def test_the_newest_arithmetic_holds(two_gpus):
  for _ in range(2):
    device_lib.connect("gpu")
    device_lib.connect("gpu", gpu=trainer.GPUConfig(tensor_float_32=False, deterministic=True))
  assert two_gpus.arithmetic == 2 * [("tf32", True), ("tf32", False), ("bits", True)]
  device_lib.connect("cpu", gpu=trainer.GPUConfig(tensor_float_32=False))
  assert len(two_gpus.arithmetic) == 6


def test_a_run_is_that_of_a_cpu(two_gpus, tmp_path):
  """Computed on the CPU, to which TensorFlow moves what no GPU is there for."""

  def results(device):
    folder = tmp_path / device
    estimator = programs.estimator(folder / "model", device=device)
    return programs.results_of_all_modes(estimator, folder / "export")

  np.testing.assert_allclose(results("gpu"), results("cpu"), rtol=1e-5)


def test_a_training_runs_where_every_operation_is_deterministic(tmp_path):
  """TensorFlow refuses some operations there, its clock among them."""
  tf.config.experimental.enable_op_determinism()
  try:
    estimator = programs.estimator(tmp_path, log_step_count_steps=2)
    estimator.train(programs.train_input, max_steps=4)
  finally:
    tensorflow_config.disable_op_determinism()
  lines = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
  assert all(0 <= line["input_wait"] < 1 for line in lines if line["kind"] == "train")
