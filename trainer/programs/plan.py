"""The programs of XLA devices, as values: their kind, their number of steps or groups, their input.

made = plan(config, Kind.TRAIN, element_spec)  # Plan(kind="train", length=100, ...)
"""

import dataclasses
from typing import Any

import tensorflow as tf

from trainer import errors, run_config
from trainer.cli import formatting
from trainer.inputs import stacks
from trainer.settings.kinds import Kind

# The most steps where nothing else bounds them: the first program has to wait for so many batches.
_MOST = 1024
# The most groups: Python handles Ctrl-C only between two programs, and the first predictions come
# with the last ones of a program.
_MOST_GROUPS = 64


@dataclasses.dataclass(frozen=True)
class Plan:
  """A program. It takes its batches in one stack, and the numbers (first, count) of the places.

  Attributes:
    kind: the kind of its steps.
    element_spec: the spec of one core's batch.
    length: the largest number of steps, or of groups of an evaluation or a prediction.
    limit_bytes: the largest size of its groups' results on one core. One group may be larger.
  """

  kind: Kind
  element_spec: Any
  length: int = 1
  limit_bytes: int = 0

  @property
  def arguments(self) -> tuple:
    """The specs of its arguments on one core: (batches, first, count)."""
    number = tf.TensorSpec([], tf.int32)
    return stacks.spec_of(self.element_spec, self.length), number, number

  @property
  def step_bytes(self) -> int:
    """The bytes of one core's batch."""
    return stacks.bytes_of_step(self.element_spec)


def plan(
  config: run_config.RunConfig, kind: Kind, element_spec: Any, groups: int | None = None
) -> Plan:
  """Decides how many steps, or groups, a program has.

  Args:
    config: the configuration of the run.
    kind: the kind.
    element_spec: of one core's batch.
    groups: the number of groups in the input, or None.

  Raises:
    SettingError: TPUConfig.steps_per_program is impossible here.
  """
  length = _length(config, kind, element_spec, groups)
  return Plan(kind, element_spec, length, config.tpu_config.stacked_input_bytes)


def _length(config, kind, element_spec, groups):
  wanted = config.tpu_config.steps_per_program
  if wanted == 1:
    return 1
  step_bytes = max(stacks.bytes_of_step(element_spec), 1)
  fitting = config.tpu_config.stacked_input_bytes // step_bytes
  if kind != Kind.TRAIN:
    most = wanted or _MOST_GROUPS
    return max(1, min(fitting, most, _MOST_GROUPS, most if groups is None else groups))
  if wanted is None:
    return max(1, min(_longest_loop(config), _MOST, fitting))
  if wanted > fitting:
    size = formatting.memory_size
    raise errors.SettingError(
      f"TPUConfig.steps_per_program is {wanted}: the input of so many steps takes "
      f"{size(wanted * step_bytes)} on each core, and TPUConfig.stacked_input_bytes allows "
      f"{size(config.tpu_config.stacked_input_bytes)}, or {fitting} steps."
    )
  return wanted


def _longest_loop(config):
  loop = config.tpu_config.iterations_per_loop
  if loop is None:
    cadences = (config.log_step_count_steps, config.save_summary_steps, config.checkpoint_steps)
    return min(cadence for cadence in cadences if cadence)
  return _MOST if isinstance(loop, str) else loop
