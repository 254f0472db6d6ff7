"""Applies the settings of GPUs, and explains why GPUs are missing."""

import os

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import installation
from trainer.devices import gpu_config, gpu_problems, nvidia_driver, tensorflow_package
from trainer.pjrt import installed

_EARLY = (
  "Make tensors, variables and layers inside the model_fn, or call trainer.connect before making "
  "the first one."
)


def set_memory_growth(config: gpu_config.GPUConfig) -> None:
  """Sets how TensorFlow allocates the memory of all GPUs; call it before TensorFlow starts.

  TensorFlow allocates memory on all GPUs that it sees, whichever a run uses, so a run on the CPU
  needs this too.
  """
  # TensorFlow obeys the variable first. Its own setting gets lost if the CPU has virtual cores
  # (TensorFlow 2.21, context.py: each GPU gets an empty list of virtual devices).
  if config.memory_growth:
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
  else:
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
  for gpu in tf.config.list_physical_devices("GPU"):
    try:
      tf.config.experimental.set_memory_growth(gpu, config.memory_growth)
    except RuntimeError:  # TensorFlow has started, with the other way
      logging.warning(
        "GPUConfig.memory_growth = %s comes too late: TensorFlow has started in this process. %s",
        config.memory_growth,
        _EARLY,
      )
      return
    except ValueError as error:  # the program has set something else, such as virtual GPUs
      logging.warning("GPUConfig.memory_growth = %s: %s", config.memory_growth, error)
      return


def leave_to_pjrt(config: gpu_config.GPUConfig) -> None:
  """Leaves the GPUs of this process to PJRT; call it before jax starts.

  Otherwise TensorFlow would allocate their memory, and run input pipelines there.

  Raises:
    SettingError: TensorFlow has started, and uses the GPUs already.
  """
  try:
    tf.config.set_visible_devices([], "GPU")
  except RuntimeError as error:
    raise errors.SettingError(
      f"--device=xla:gpu comes too late: TensorFlow uses the GPUs of this process already. {_EARLY}"
    ) from error
  # jax would allocate three quarters of the memory at the start.
  os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", str(not config.memory_growth).lower())


def set_arithmetic(config: gpu_config.GPUConfig) -> None:
  """Sets how this process's GPUs compute from now on."""
  tf.config.experimental.enable_tensor_float_32_execution(config.tensor_float_32)
  if config.deterministic:
    tf.config.experimental.enable_op_determinism()


def problem() -> str:
  """Returns why TensorFlow does not see this machine's GPUs, with a remedy; "" if unknown."""
  seen = len(tf.config.list_physical_devices("GPU"))
  return gpu_problems.find(nvidia_driver.read(), seen)


def of_pjrt() -> int:
  """Returns how many GPUs PJRT seems to drive: none without jax's plug-in for CUDA."""
  platforms = os.environ.get("JAX_PLATFORMS")
  if not installed.cuda_plugin() or (platforms and not {"cuda", "gpu"} & {*platforms.split(",")}):
    return 0
  driver = nvidia_driver.read()
  count = len(driver.gpus) if driver else 0
  visible = nvidia_driver.visible()
  return count if visible is None else min(count, len(visible))


def require() -> None:
  """Raises SettingError if TensorFlow sees no GPU, and says why."""
  if tf.config.list_physical_devices("GPU"):
    return
  remedy = f"{installation.command('gpu')} brings a TensorFlow that sees them."
  found = f"--device=gpu: {tensorflow_package.installed()} found 0 GPUs"
  raise errors.SettingError(f"{found}: {why}" if (why := problem()) else f"{found}; {remedy}")


def names() -> list[str]:
  """Returns the names of the GPUs that TensorFlow sees, in its order."""
  return [
    tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
    for gpu in tf.config.list_physical_devices("GPU")
  ]
