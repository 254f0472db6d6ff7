"""A program for XLA devices, as a value: its code, arguments and results.

Each replica runs the whole program on its own device. Variables stay on the devices from one
program to the next: a program takes them as arguments, and its results are their next values, in
the same memory.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes  # noqa: F401  (which tells numpy of bfloat16)
import numpy as np

from trainer import errors

# Names of scalars in programs of many steps: the first place of the input, and the number of steps.
# No variable has a colon in its name.
FIRST, COUNT = ":first", ":count"


class Role(enum.StrEnum):
  """What an argument is."""

  VARIABLE = "variable"  # equal on all devices
  OWN_VARIABLE = "own variable"  # each device's own, such as a moving mean of batch norm
  INPUT = "input"  # each device's own, new for each run
  SCALAR = "scalar"  # equal on all devices, new for each run


@dataclasses.dataclass(frozen=True)
class Argument:
  """An argument of a program.

  Attributes:
    name: the name of the variable, the input or the scalar.
    shape: on one device.
    dtype: numpy's name of it, or "bfloat16".
    role: its kind.
  """

  name: str
  shape: tuple[int, ...]
  dtype: str
  role: Role

  @property
  def is_variable(self) -> bool:
    """Whether it stays on the devices between programs."""
    return self.role in (Role.VARIABLE, Role.OWN_VARIABLE)

  @property
  def differs(self) -> bool:
    """Whether each device has its own."""
    return self.role in (Role.OWN_VARIABLE, Role.INPUT)


@dataclasses.dataclass(frozen=True)
class Result:
  """A result of a program.

  Attributes:
    name: the name of the updated variable, or any other name.
    shape: on one device.
    dtype: as of an Argument.
    updates: whether it is the next value of the variable with its name, in the variable's memory.
  """

  name: str
  shape: tuple[int, ...]
  dtype: str
  updates: bool


@dataclasses.dataclass(frozen=True)
class Program:
  """A program of one of several replicas.

  Attributes:
    code: StableHLO, see `jaxlib_internals.stablehlo_of_hlo`. b"" before the lowering: then only a
      compiled form can be loaded.
    arguments: in the code's order.
    results: in the code's order.
    replicas: the number of devices that run it together.
  """

  code: bytes
  arguments: tuple[Argument, ...]
  results: tuple[Result, ...]
  replicas: int

  @property
  def aliases(self) -> list[tuple[int, int]]:
    """Pairs (number of a result, number of the argument whose memory it reuses)."""
    positions = {argument.name: index for index, argument in enumerate(self.arguments)}
    return [
      (index, positions[result.name]) for index, result in enumerate(self.results) if result.updates
    ]

  def of_roles(self, *roles: Role) -> tuple[Argument, ...]:
    """Returns the arguments of some roles."""
    return tuple(argument for argument in self.arguments if argument.role in roles)

  @property
  def variables(self) -> tuple[Argument, ...]:
    """The arguments that are variables."""
    return self.of_roles(Role.VARIABLE, Role.OWN_VARIABLE)


@dataclasses.dataclass(frozen=True)
class Source:
  """The source of a program. A program with a compiled form needs no lowering.

  Attributes:
    signature: the program, perhaps without code.
    digest: programs with the same digest have the same code.
    versions: versions of the tools that make the code, name → text.
    lower: returns the program with its code.
  """

  signature: Program
  digest: str
  versions: Mapping[str, str]
  lower: Callable[[], Program]


def whole_shape(argument: Argument, replicas: int) -> tuple[int, ...]:
  """Returns the shape of an argument's value on the host: [replicas, ...] where devices differ."""
  return (replicas, *argument.shape) if argument.differs else argument.shape


def check_values(
  arguments: tuple[Argument, ...], replicas: int, values: Mapping[str, Any], source: str
) -> None:
  """Checks that there is a value of the right shape and dtype for each argument.

  Args:
    arguments: the arguments.
    replicas: number of devices.
    values: name → numpy array, as of `whole_shape`; of a variable also one value for all devices.
    source: where the values come from, for the message.

  Raises:
    SettingError: one is missing, or of another shape or dtype.
  """
  for argument in arguments:
    value = values.get(argument.name)
    if value is None:
      raise errors.SettingError(f"{source} has no value for the {argument.role} {argument.name}.")
    expected = whole_shape(argument, replicas)
    of_one = argument.shape if argument.is_variable else expected
    if value.shape not in (expected, of_one) or value.dtype != np.dtype(argument.dtype):
      raise errors.SettingError(
        f"{source}: the {argument.role} {argument.name} is {value.dtype}{list(value.shape)}, "
        f"expected {argument.dtype}{list(expected)}."
      )
