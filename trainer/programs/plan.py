"""The programs of a device, as values: their kind, their number of steps or groups, their input.

    planner = Planner(config, target_of(device, config))
    planner.plan(Kind.TRAIN, element_spec)  # Plan(kind="train", length=100, is_stacked=True, ...)

The loop traces a Plan on the device's strategy; preflight traces it on one replica of many.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from trainer import errors, run_config
from trainer.cli import formatting
from trainer.devices import device as device_lib
from trainer.inputs import stacks
from trainer.settings.kinds import Kind

# The most steps where nothing else bounds them: the first program has to wait for so many batches.
_MOST = 1024
# The most groups: Python handles Ctrl-C only between two programs, and the first predictions come
# with the last ones of a program.
_MOST_GROUPS = 64

_ALL = frozenset(Kind)


@dataclasses.dataclass(frozen=True)
class Target:
  """The properties of a device that decide its programs. The defaults are XLA devices'.

  Attributes:
    replicas: the batches that a program takes per step: one per replica of this process. (In
      evaluation and prediction, hosts of XLA devices take the batches of all, see `xla_groups`.)
    stacked: the kinds with several steps, or groups, in one program. Such a program takes a stack
      even for one step.
    is_one_cpu: whether the device is a CPU as one core.
    xla: whether XLA compiles the training steps of a CPU or a GPU.
  """

  replicas: int
  stacked: frozenset[Kind] = _ALL
  is_one_cpu: bool = False
  xla: bool = False


def target_of(device: device_lib.Device, config: run_config.RunConfig) -> Target:
  """Returns the Target of a run's device.

  Raises:
    SettingError: --xla is impossible here.
  """
  xla = device.uses_xla(config.xla, config.static_shapes)
  return Target(
    device.local_replicas,
    stacked=_ALL if device.runs_by_pjrt else frozenset([Kind.TRAIN] if xla else []),
    is_one_cpu=device.kind == "cpu" and device.replicas == 1,
    xla=xla,
  )


@dataclasses.dataclass(frozen=True)
class Plan:
  """A program.

  Attributes:
    kind: the kind of its steps.
    element_spec: the spec of one core's batch.
    replicas: the batches that it takes per step.
    length: the largest number of steps, or of groups of an evaluation or a prediction.
    is_stacked: whether it takes its batches in one stack, and the numbers (first, count) of the
      places to use. If not, it is one step.
    limit_bytes: the largest size of its groups' results on one core.
  """

  kind: Kind
  element_spec: Any
  replicas: int
  length: int = 1
  is_stacked: bool = False
  limit_bytes: int = 0

  @property
  def arguments(self) -> tuple:
    """The specs of its arguments: (batches, first, count), or batches alone; one per replica."""
    if not self.is_stacked:
      return ((self.element_spec,) * self.replicas,)
    number = tf.TensorSpec([], tf.int32)
    return stacks.spec_of(self.element_spec, self.length, self.replicas), number, number

  @property
  def step_bytes(self) -> int:
    """The bytes of one core's batch."""
    return stacks.bytes_of_step(self.element_spec)

  def of_length(self, length: int) -> "Plan":
    """Returns the same plan with another number of steps; one step needs no stack."""
    return dataclasses.replace(self, length=max(length, 1), is_stacked=length > 1)


@dataclasses.dataclass(frozen=True)
class Planner:
  """Decides how many steps, or groups, a program has."""

  config: run_config.RunConfig
  target: Target

  def plan(self, kind: Kind, element_spec: Any, groups: int | None = None) -> Plan:
    """Returns the program of a kind.

    Args:
      kind: the kind.
      element_spec: of one core's batch.
      groups: the number of groups in the input, or None.

    Raises:
      SettingError: TPUConfig.steps_per_program is impossible here.
    """
    length = self._length(kind, element_spec, groups)
    limit = self.config.tpu_config.stacked_input_bytes
    is_stacked = kind in self.target.stacked
    return Plan(kind, element_spec, self.target.replicas, length, is_stacked, limit)

  def _length(self, kind, element_spec, groups):
    wanted = self.config.tpu_config.steps_per_program
    if wanted == 1 or kind not in self.target.stacked:
      return 1
    step_bytes = max(stacks.bytes_of_step(element_spec), 1)
    fitting = self.config.tpu_config.stacked_input_bytes // step_bytes
    if kind != Kind.TRAIN:
      most = wanted or _MOST_GROUPS
      return max(1, min(fitting, most, _MOST_GROUPS, most if groups is None else groups))
    if wanted is None:
      return max(1, min(self._longest_loop(), _MOST, fitting))
    if wanted > fitting:
      size = formatting.memory_size
      raise errors.SettingError(
        f"TPUConfig.steps_per_program is {wanted}: the input of so many steps takes "
        f"{size(wanted * step_bytes)} on each core, and TPUConfig.stacked_input_bytes allows "
        f"{size(self.config.tpu_config.stacked_input_bytes)}, or {fitting} steps."
      )
    return wanted

  def _longest_loop(self):
    loop = self.config.tpu_config.iterations_per_loop
    if loop is None:
      config = self.config
      cadences = (config.log_step_count_steps, config.save_summary_steps, config.checkpoint_steps)
      return min(cadence for cadence in cadences if cadence)
    return _MOST if isinstance(loop, str) else loop
