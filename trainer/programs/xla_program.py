"""Makes a program for XLA devices from a traced one: code without variables that PJRT runs.

    traced = xla_program.trace(program, plan)
    program = xla_program.OnDevices(traced, store)
    program.start(stacks.Stack(program.put(elements), steps=20), 20)

`of` makes the input of OnDevices, also for absent devices. TensorFlow lowers the program for a CPU,
even if a TPU runs it.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.inputs import elements, stacks
from trainer.pjrt import program as pjrt_program
from trainer.programs import graph_digest, lowering, traced_program
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind
from trainer.tracing import xla_variables

_NO_LIMIT = 2**62


@dataclasses.dataclass(frozen=True)
class XlaProgram:
  """A program for XLA devices.

  Attributes:
    source: what PJRT compiles, or finds compiled.
    inputs: the names of the leaves of its stack, flat.
  """

  source: pjrt_program.Source
  inputs: tuple[str, ...]

  @property
  def variables(self) -> tuple[pjrt_program.Argument, ...]:
    """The arguments that are variables."""
    return self.source.signature.variables


def trace(program: step_lib.Program, plan: plan_lib.Plan) -> traced_program.TracedProgram:
  """Traces a program as one replica of many.

  Args:
    program: the step.Program.
    plan: the plan, with the batches of all replicas. The program takes a stack even for one step,
      or for one group with results of any size.

  Raises:
    InputError: the input has a dtype that XLA devices lack.
    core_results.TooLarge, ModelFnError: see `traced_program.trace`.
  """
  check_dtypes(plan.kind, plan.element_spec)
  limit = plan.limit_bytes if plan.length > 1 else _NO_LIMIT
  stacked = dataclasses.replace(plan, replicas=1, is_stacked=True, limit_bytes=limit)
  # With jit_compile, TensorFlow keeps the values for a branch's gradient in tensors. Otherwise it
  # keeps them in optionals, which XLA lacks.
  return traced_program.trace(program, stacked, jit_compile=True)


def of(traced: traced_program.TracedProgram, store: Any, replicas: int) -> XlaProgram:
  """Makes a program of one of many replicas that takes a stack. Lowers it on demand.

  Args:
    traced: the program.
    store: the VariableStore of its variables.
    replicas: the number of devices that run it together.

  Raises:
    LowerError: Octet cannot remove the variables. `source.lower` raises the same if XLA cannot
      compile the program.
  """
  functionalized = lowering.functionalize_traced(traced.concrete, traced.global_step.handle)
  arguments = [
    xla_variables.argument(store, handle, spec)
    for handle, spec in zip(functionalized.handles, functionalized.specs, strict=True)
  ]
  names = [each.name for each in arguments]
  results = [arguments[index] for index in functionalized.assigned]
  leaves = traced.specs[:-2]  # then first and count
  inputs = tuple(f":input/{index}" for index in range(len(leaves)))
  arguments += [
    _argument(name, spec, pjrt_program.Role.INPUT)
    for name, spec in zip(inputs, leaves, strict=True)
  ]
  arguments += [
    _argument(name, tf.TensorSpec([], tf.int32), pjrt_program.Role.SCALAR)
    for name in (pjrt_program.FIRST, pjrt_program.COUNT)
  ]
  signature = pjrt_program.Program(
    b"",
    tuple(arguments),
    tuple(pjrt_program.Result(each.name, each.shape, each.dtype, True) for each in results),
    replicas,
  )

  @functools.cache
  def lower():
    from trainer.pjrt import jaxlib_internals  # it imports jax

    hlo = lowering.lower(functionalized, names)
    return dataclasses.replace(signature, code=jaxlib_internals.stablehlo_of_hlo(hlo))

  digest = graph_digest.of(traced.concrete, signature)
  return XlaProgram(pjrt_program.Source(signature, digest, graph_digest.versions(), lower), inputs)


class OnDevices:
  """A program on the devices of a store; its first use compiles it, or finds it compiled.

  Args:
    traced: the program.
    store: the VariableStore of its variables.

  Attributes:
    variables: the XlaVariables of the store.

  Raises:
    LowerError: see `of`.
  """

  def __init__(self, traced: traced_program.TracedProgram, store: Any) -> None:
    self.variables = store.on_xla
    self._kind = traced.plan.kind
    self._made = of(traced, store, self.variables.devices.count)
    self.variables.prepare(self._made.source)

  @functools.cached_property
  def executable(self) -> Any:
    """The execution.Executable."""
    return self.variables.compile(self._made.source, self._kind)

  def put(self, stacked: Sequence[Any]) -> dict[str, Any]:
    """Puts a stack on the devices.

    Args:
      stacked: for each device of this process its element, a nest of eager tensors.
    """
    of_cores = [tf.nest.flatten(element) for element in stacked]
    return self.executable.put_inputs(
      {
        name: [np.asarray(leaves[index]) for leaves in of_cores]
        for index, name in enumerate(self._made.inputs)
      }
    )

  def give_variables(self) -> None:
    """Copies the program's missing variables to the devices, see XlaVariables.give."""
    self.variables.give(self._made.variables)

  def start(self, stack: stacks.Stack, count: int) -> None:
    """Starts the next steps of a stack, and returns while the devices work.

    Args:
      stack: its elements are results of `put`.
      count: the number of steps, or groups.
    """
    places = {pjrt_program.FIRST: np.int32(stack.first), pjrt_program.COUNT: np.int32(count)}
    self.executable.run(self.variables.on_devices, stack.elements, places)


def check_dtypes(kind: Kind, element_spec: Any) -> None:
  """Checks the dtypes of an input's elements.

  Raises:
    InputError: it has a dtype that XLA devices do not have.
  """
  for path, leaf in elements.named_leaves(element_spec):
    if leaf.dtype in (tf.string, tf.variant, tf.resource):
      raise errors.InputError(
        f"{path} ({kind}) has dtype {leaf.dtype.name}, and an XLA device has no such dtype: turn "
        "it into numbers in the input_fn."
      )


def _argument(name, spec, role):
  return pjrt_program.Argument(name, tuple(spec.shape.as_list()), spec.dtype.name, role)
