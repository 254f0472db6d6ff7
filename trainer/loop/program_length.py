"""How many training steps are one program of the device."""

from typing import Any

from trainer import errors, formatting, run_config
from trainer.devices import device as device_lib
from trainer.inputs import stacks

# The most steps where nothing else bounds them: the first program has to wait for so many batches.
_MOST = 1024


def steps_per_program(
  config: run_config.RunConfig, device: device_lib.Device, element_spec: Any
) -> int:
  """Returns the steps of one program; 1 where the host calls each step.

  Args:
    config: the RunConfig.
    device: the Device.
    element_spec: of the per-core batches.

  Raises:
    SettingError: TPUConfig.steps_per_program cannot be had.
  """
  wanted = config.tpu_config.steps_per_program
  if wanted is None and device.kind != "tpu":
    return 1
  if wanted == 1:
    return 1
  if device.is_multi_worker:
    raise errors.SettingError(
      f"TPUConfig.steps_per_program is {wanted}: with several workers (TF_CONFIG) the host calls "
      "each step; leave it None."
    )
  if wanted is not None and not config.static_shapes and device.replicas == 1:
    raise errors.SettingError(
      f"TPUConfig.steps_per_program is {wanted}: batches of different shapes "
      "(RunConfig.static_shapes = False) cannot be stacked; leave it None."
    )
  return steps_on_tpu(config, element_spec)


def steps_on_tpu(config: run_config.RunConfig, element_spec: Any) -> int:
  """Returns the steps of one program on a TPU.

  Args:
    config: the RunConfig.
    element_spec: of the per-core batches.

  Raises:
    SettingError: the input of TPUConfig.steps_per_program takes more than its bound.
  """
  wanted, step_bytes = config.tpu_config.steps_per_program, stacks.bytes_of_step(element_spec)
  limit = config.tpu_config.stacked_input_bytes
  if wanted is None:
    return _most_steps(config, step_bytes)
  if wanted > 1 and wanted * step_bytes > limit:
    raise errors.SettingError(
      f"TPUConfig.steps_per_program is {wanted}: the input of so many steps takes "
      f"{formatting.memory_size(wanted * step_bytes)} on each core, and "
      f"TPUConfig.stacked_input_bytes allows {formatting.memory_size(limit)}, which is "
      f"{limit // step_bytes} steps."
    )
  return wanted


def _most_steps(config, step_bytes):
  """The steps where no number is set: bounded by the input's bytes and by the longest loop."""
  loop = config.tpu_config.iterations_per_loop
  if loop is None:
    cadences = (config.log_step_count_steps, config.save_summary_steps, config.checkpoint_steps)
    longest = min(cadence for cadence in cadences if cadence)
  else:
    longest = _MOST if isinstance(loop, str) else loop
  return max(1, min(longest, _MOST, config.tpu_config.stacked_input_bytes // max(step_bytes, 1)))
