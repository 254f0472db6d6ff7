"""How many training steps, or groups of an evaluation or a prediction, are one program."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from trainer import errors, run_config
from trainer.cli import formatting
from trainer.devices import device as device_lib
from trainer.inputs import stacks
from trainer.programs import core_results

# The most steps where nothing else bounds them: the first program has to wait for so many batches.
_MOST = 1024
# The most groups: Python handles Ctrl-C only between two programs, and the first predictions come
# with the last ones of a program.
_MOST_GROUPS = 64

_Traced = TypeVar("_Traced")


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
  by_default = device.kind == "tpu" or config.xla
  return steps_on_tpu(config, element_spec) if _is_one_program(config, device, by_default) else 1


def groups_per_program(
  config: run_config.RunConfig, device: device_lib.Device, group_spec: Any, groups: int | None
) -> int:
  """Returns the groups of one program by what their input takes; 1 where the host calls each.

  Args:
    config: the RunConfig.
    device: the Device.
    group_spec: of the groups, (element, rows).
    groups: how many there are, or None.

  Raises:
    SettingError: TPUConfig.steps_per_program cannot be had.
  """
  if not _is_one_program(config, device, device.kind == "tpu"):
    return 1
  return groups_on_tpu(config, element_of(group_spec), groups)


def element_of(group_spec: Any) -> Any:
  """Returns the specs of one core's batch in a group."""
  element, _ = group_spec
  return tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape[1:], leaf.dtype), element)


def _is_one_program(config, device, by_default):
  """Returns whether the device does more than one step in a program, if the bounds allow it."""
  wanted = config.tpu_config.steps_per_program
  if wanted == 1 or (wanted is None and not by_default):
    return False
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
  return True


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


def groups_on_tpu(
  config: run_config.RunConfig, element_spec: Any, groups: int | None = None
) -> int:
  """Returns the groups of one program on a TPU, by what their input takes.

  Args:
    config: the RunConfig.
    element_spec: of the per-core batches.
    groups: how many there are, or None.
  """
  fitting = config.tpu_config.stacked_input_bytes // max(stacks.bytes_of_step(element_spec), 1)
  most = config.tpu_config.steps_per_program or _MOST_GROUPS
  return max(1, min(fitting, most, _MOST_GROUPS, most if groups is None else groups))


def longest(trace: Callable[[int], _Traced], groups: int) -> tuple[int, _Traced | None]:
  """Traces the longest program of at most so many groups whose results keep to their bound.

  Args:
    trace: function of a number of groups that traces their program, and raises TooLarge.
    groups: the most groups.

  Returns:
    (groups, program): 1 and None where not even two groups may be one program.
  """
  while groups > 1:
    try:
      return groups, trace(groups)
    except core_results.TooLarge as error:
      groups = error.groups
  return 1, None


def _most_steps(config, step_bytes):
  """The steps where no number is set: bounded by the input's bytes and by the longest loop."""
  loop = config.tpu_config.iterations_per_loop
  if loop is None:
    cadences = (config.log_step_count_steps, config.save_summary_steps, config.checkpoint_steps)
    longest = min(cadence for cadence in cadences if cadence)
  else:
    longest = _MOST if isinstance(loop, str) else loop
  return max(1, min(longest, _MOST, config.tpu_config.stacked_input_bytes // max(step_bytes, 1)))
