"""The variables of programs, on the devices.

    values = DeviceValues(connected)
    values.put(program.variables, {"dense/kernel": kernel, "global_step": np.int64(0)})
    executable.run(values, inputs, scalars)  # the values are the next ones
    values.read(["dense/kernel"])["dense/kernel"]

A program takes the values' memory for their next values, so nothing else may hold them. The host
reads the values that it wants to keep before the next program starts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import jax
import numpy as np

from trainer import errors
from trainer.pjrt import devices as devices_lib
from trainer.pjrt import jaxlib_internals, program


class ExecutionError(errors.OctetError, RuntimeError):
  """A program failed on the devices and took its variables with it."""


class DeviceValues:
  """Values of variables on devices, by name."""

  def __init__(self, connected: devices_lib.Devices) -> None:
    self._connected = connected
    self._placement = Placement(connected)
    self._arrays: dict[str, jax.Array] = {}
    self._differs: dict[str, bool] = {}  # each device has its own
    self._lost = ""  # why there are no values

  @property
  def names(self) -> Collection[str]:
    """The names of the variables with values."""
    return self._arrays.keys()

  @property
  def is_lost(self) -> bool:
    """Whether a program has failed, and the values with it."""
    return bool(self._lost)

  def put(
    self,
    arguments: Iterable[program.Argument],
    values: Mapping[str, np.ndarray],
    source: str = "The host",
  ) -> None:
    """Copies values to the devices; after `mark_lost`, all of them at once.

    Args:
      arguments: the variables.
      values: by name, in the form of `program.whole_shape`; or, if all devices get the same, the
        value for one device.
      source: the origin of the values, for messages.

    Raises:
      SettingError: a value is missing, or has another shape or dtype.
    """
    arguments = tuple(arguments)
    program.check_values(arguments, self._connected.count, values, source)
    made = {each.name: self._placement.put(each, values[each.name]) for each in arguments}
    if self._lost:  # what another program still had belongs to another moment
      self._arrays, self._lost = {}, ""
    self._arrays.update(made)
    self._differs.update({each.name: each.differs for each in arguments})

  def read(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
    """Copies values to the host; waits for the program that makes them.

    Args:
      names: of the variables; None for all.

    Returns:
      name → the value; for a variable with a value per device, the form of `read_each`.

    Raises:
      ExecutionError: the program that makes them has failed.
    """
    wanted = list(self._arrays if names is None else names)
    found = self._read(wanted, lambda name: self._differs[name])
    return {name: each if self._differs[name] else each[0] for name, each in found.items()}

  def read_each(self, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Copies each device's values to the host: name → [devices, ...].

    For a variable with a value per device, the devices are those of all hosts, and all hosts must
    call this. For any other variable they are the devices of this process.

    Raises:
      ExecutionError: as `read`.
    """
    return self._read(list(names), lambda name: True)

  def _read(self, names, of_each):
    self._require()
    try:
      own = [name for name in names if self._differs[name]]
      gathered = self._placement.gather([self._arrays[name] for name in own])
      found = dict(zip(own, gathered, strict=True))
      return {
        name: found[name] if name in found else read_each(self._arrays[name], of_each(name))
        for name in names
      }
    except jax.errors.JaxRuntimeError as error:
      self.mark_lost(errors.first_line(error))
      raise self.error() from error

  def wait(self) -> None:
    """Waits for the program that makes the values.

    Raises:
      ExecutionError: it has failed.
    """
    self._require()
    try:
      jax.block_until_ready(list(self._arrays.values()))
    except jax.errors.JaxRuntimeError as error:
      self.mark_lost(errors.first_line(error))
      raise self.error() from error

  def arrays(self, arguments: Iterable[program.Argument]) -> list[jax.Array]:
    """Returns the arrays of variables, for an executable that runs now.

    Raises:
      ExecutionError: an earlier program has failed.
      SettingError: a variable has no value.
    """
    self._require()
    try:
      return [self._arrays[argument.name] for argument in arguments]
    except KeyError as error:
      raise errors.SettingError(f"The variable {error} has no value on the devices.") from None

  def replace(self, arrays: Mapping[str, jax.Array]) -> None:
    """Takes the next values, which a program writes to the memory of the last values."""
    self._arrays.update(arrays)

  def mark_lost(self, why: str) -> None:
    """Records that a program failed: the memory of its variables is gone."""
    self._lost = self._lost or why
    self._arrays = {}

  def _require(self):
    if self._lost:
      raise self.error()

  def error(self) -> ExecutionError:
    """Returns the error for a read of lost values."""
    return ExecutionError(
      f"A program failed on the devices ({self._lost}). It took the memory of the variables with "
      "it: their values come from a checkpoint."
    )


class Placement:
  """Copies values from the host to devices, and back from the devices of all hosts."""

  def __init__(self, connected: devices_lib.Devices) -> None:
    self._count = connected.count
    self._local = connected.local
    self._numbers = connected.numbers
    self._is_shared = connected.is_shared
    spec = jax.sharding.PartitionSpec
    mesh = jax.sharding.Mesh(np.array(connected.all), ("replica",))
    self.equal = jax.sharding.NamedSharding(mesh, spec())
    self._split = jax.sharding.NamedSharding(mesh, spec("replica"))
    # To the compiler, a copy of the parts of all devices is this function with equal results.
    self._copy_to_all = jax.jit(lambda arrays: arrays, out_shardings=self.equal)

  def put(self, argument: program.Argument, value: np.ndarray) -> jax.Array:
    """Copies the value of an argument to the devices, see `DeviceValues.put`."""
    if argument.differs and value.shape != argument.shape:
      return self.put_each(argument, [value[number] for number in self._numbers])
    values = [np.asarray(value, order="C")] * len(self._local)
    return jaxlib_internals.put(values, argument.shape, self.equal, self._local)

  def put_each(self, argument: program.Argument, values: Sequence[np.ndarray]) -> jax.Array:
    """Copies to each device of this process its own value."""
    # np.ascontiguousarray would make a rank of 1 of a scalar.
    values = [np.asarray(value, order="C") for value in values]
    # jaxlib fails where two devices get one and the same memory.
    if len({value.__array_interface__["data"][0] for value in values}) < len(values):
      values = [np.array(value) for value in values]
    if argument.shape:
      whole = (self._count * argument.shape[0], *argument.shape[1:])
      return jaxlib_internals.put(values, whole, self._split, self._local)
    # A scalar has no axis to split. jax takes the parts unchanged, and does not compare them.
    parts = [
      jaxlib_internals.put([value], (), jax.sharding.SingleDeviceSharding(device), [device])
      for value, device in zip(values, self._local, strict=True)
    ]
    return jax.make_array_from_single_device_arrays((), self.equal, parts)

  def gather(self, arrays: Sequence[jax.Array]) -> list[np.ndarray]:
    """Copies arrays that differ between devices to the host: [devices of all hosts, ...].

    All hosts must call it with the same arrays.

    Raises:
      jax.errors.JaxRuntimeError: the program that makes an array has failed, or a host is gone.
    """
    if not self._is_shared or not arrays:
      return [read_each(array) for array in arrays]
    own = [[part.data for part in array.addressable_shards] for array in arrays]
    whole = self._copy_to_all([self._split_over_all(parts) for parts in own])
    # For all devices: a process that ends while one of its devices copies would block the others.
    jax.block_until_ready(whole)
    return [
      np.array(copied.addressable_data(0)).reshape(self._count, *parts[0].shape)
      for copied, parts in zip(whole, own, strict=True)
    ]

  def _split_over_all(self, parts):
    """Returns the array with these parts on the devices of this process."""
    if not parts[0].shape:  # A scalar has no axis to split.
      parts = [part.reshape(1) for part in parts]
    shape = self._count * parts[0].shape[0], *parts[0].shape[1:]
    return jax.make_array_from_single_device_arrays(shape, self._split, parts)


def read_each(array: jax.Array, differs: bool = True) -> np.ndarray:
  """Copies an array's parts to the host: [devices of this process, ...], or [1, ...] of the first.

  Raises:
    jax.errors.JaxRuntimeError: the program that makes the array has failed.
  """
  parts = array.addressable_shards
  # A copy: on a CPU, jax returns the device's own memory, which the next program reuses.
  return np.stack([np.array(part.data) for part in (parts if differs else parts[:1])])
