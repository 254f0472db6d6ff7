"""Compiles a program for devices, and runs it.

    executable = Executable(program, connected)
    inputs = executable.put_inputs({"features": features})
    results = executable.run(values, inputs, {"first": np.int32(0), "count": np.int32(20)})
    results.read()["loss_sum"]  # waits for the devices

`run` returns as soon as the devices have begun. So the caller can put the next inputs on the
devices while they work.
"""

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from trainer import errors
from trainer.pjrt import device_values, jaxlib_internals, program
from trainer.pjrt import devices as devices_lib

_NUMPY_OF_MLIR = {"i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32"}
_NUMPY_OF_MLIR |= {"f64": "float64", "complex<f32>": "complex64", "complex<f64>": "complex128"}
for _bits in (8, 16, 32, 64):
  _NUMPY_OF_MLIR |= {f"i{_bits}": f"int{_bits}", f"ui{_bits}": f"uint{_bits}"}


class Executable:
  """A program, compiled for devices.

  Args:
    code: the program.
    connected: the devices, as many as the program has replicas.
    compiled: a compiled form of this program for these devices (see `Devices.key`), or None.

  Attributes:
    program: the program.
    compile_seconds: the time to compile or load it.

  Raises:
    SettingError: the program is for another number of devices, or does not match its code.
    ExecutionError: XLA cannot compile the code.
  """

  def __init__(
    self, code: program.Program, connected: devices_lib.Devices, compiled: bytes | None = None
  ) -> None:
    if code.replicas != connected.count:
      raise errors.SettingError(
        f"The program is for {code.replicas} devices; this process has {connected.count}."
      )
    self.program = code
    self._placement = device_values.Placement(connected)
    start = time.monotonic()
    try:
      self._loaded = (
        compile_program(code, connected)
        if compiled is None
        else jaxlib_internals.load(compiled, connected.all)
      )
    except jax.errors.JaxRuntimeError as error:
      raise device_values.ExecutionError(
        f"XLA cannot compile the program for {connected}: {errors.first_line(error)}."
      ) from error
    self.compile_seconds = time.monotonic() - start
    self._handlers = [
      jaxlib_internals.result_handler(result.shape, result.dtype, self._placement.equal)
      for result in code.results
    ]
    self._inputs = code.of_roles(program.Role.INPUT)
    self._scalars = {scalar.name: scalar for scalar in code.of_roles(program.Role.SCALAR)}

  def serialize(self) -> bytes:
    """Returns the compiled form, for `compiled`."""
    return jaxlib_internals.serialize(self._loaded)

  def put_inputs(self, inputs: Mapping[str, Sequence[np.ndarray]]) -> dict[str, jax.Array]:
    """Copies inputs to the devices.

    Args:
      inputs: name → for each device of this process its own value.
    """
    return {each.name: self._placement.put_each(each, inputs[each.name]) for each in self._inputs}

  def run(
    self,
    values: device_values.DeviceValues,
    inputs: Mapping[str, jax.Array],
    scalars: Mapping[str, np.generic],
  ) -> "Results":
    """Starts the program. Its results replace the values.

    Args:
      values: have all variables of the program.
      inputs: the result of `put_inputs`, reusable.
      scalars: name → numpy scalar.

    Returns:
      The results that are not next values of variables. They may not be complete yet.

    Raises:
      ExecutionError: this program or an earlier one has failed; the values are lost.
      SettingError: a variable has no value.
    """
    variables = iter(values.arrays(self.program.variables))
    arguments = []
    for argument in self.program.arguments:
      if argument.is_variable:
        arguments.append(next(variables))
      elif argument.role == program.Role.INPUT:
        arguments.append(inputs[argument.name])
      else:
        value = np.asarray(scalars[argument.name], argument.dtype)
        arguments.append(self._placement.put(argument, value))
    try:
      made = jaxlib_internals.execute(self._loaded, arguments, self._handlers)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
      values.mark_lost(errors.first_line(error))
      raise values.error() from error
    named = list(zip(self.program.results, made, strict=True))
    values.replace({result.name: array for result, array in named if result.updates})
    return Results({each.name: array for each, array in named if not each.updates}, values)


@dataclasses.dataclass(frozen=True)
class Results:
  """Results of a running or finished program.

  Attributes:
    arrays: by name.
    values: the variables that the program changes.
  """

  arrays: Mapping[str, jax.Array]
  values: device_values.DeviceValues

  def read(self) -> dict[str, np.ndarray]:
    """Copies the results to the host, [devices of this process, ...]; waits for the program.

    Raises:
      ExecutionError: the program has failed.
    """
    try:
      return {name: device_values.read_each(array) for name, array in self.arrays.items()}
    except jax.errors.JaxRuntimeError as error:
      self.values.mark_lost(errors.first_line(error))
      raise self.values.error() from error


def compile_program(code: program.Program, connected: devices_lib.Devices, dump: str = "") -> Any:
  """Returns jaxlib's executable of a program.

  Args:
    code: the program.
    connected: as many devices as the program has replicas; described devices suffice.
    dump: see `jaxlib_internals.compile_for`.

  Raises:
    SettingError: the program does not match its code.
    jax.errors.JaxRuntimeError: XLA cannot compile the code.
  """
  with jaxlib_internals.context():
    module = jaxlib_internals.parse_stablehlo(code.code)
    _check_types(code, *jaxlib_internals.types_of(module))
    jaxlib_internals.donate(module, code.aliases)
    if connected.full_precision:
      jaxlib_internals.use_full_precision(module)
    return jaxlib_internals.compile_for(module, connected.all, dump, connected.deterministic)


def _check_types(code, arguments, results):
  """Checks that the code has the program's arguments and results."""
  for kind, declared, found in (
    ("arguments", code.arguments, arguments),
    ("results", code.results, results),
  ):
    if len(declared) != len(found):
      raise errors.SettingError(
        f"The program's code has {len(found)} {kind}, expected {len(declared)}."
      )
    for each, mlir in zip(declared, found, strict=True):
      sizes, dtype = re.fullmatch(r"tensor<((?:\d+x)*)(.+)>", mlir).groups()
      shape = tuple(int(size) for size in sizes.split("x")[:-1])
      if (shape, _NUMPY_OF_MLIR.get(dtype)) != (each.shape, each.dtype):
        raise errors.SettingError(
          f"The program's code has {mlir} for {each.name}, expected {each.dtype}{list(each.shape)}."
        )
