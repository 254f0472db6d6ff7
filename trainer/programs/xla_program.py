"""Programs for XLA devices: traced, made into code without variables, and run by PJRT.

    traced = trace_longest(program, plan, "cpu")
    on_devices = OnDevices(traced, program.store)
    on_devices.start(stacks.Stack(on_devices.put(elements), 20, elements), 20)

`of` makes the code, also for absent devices. TensorFlow lowers the program for a CPU, even if a TPU
runs it.
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
from trainer.programs import core_results, graph_digest, graph_operations, lowering
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind
from trainer.tracing import xla_variables

_NO_LIMIT = 2**62


@dataclasses.dataclass(frozen=True)
class TracedProgram:
  """A traced program, from which the loop and preflight start.

  Attributes:
    plan: the plan of the trace.
    concrete: the concrete function of the flat tensors of plan.arguments.
    global_step: the variable.
    step: the TracedStep of its step.
    kept: the values that the program leaves in variables of each core: the CoreTotals of a
      training, the CoreResults of groups.
  """

  plan: plan_lib.Plan
  concrete: tf.types.experimental.ConcreteFunction
  global_step: tf.Variable
  step: step_lib.TracedStep
  kept: Any

  @property
  def specs(self) -> list[tf.TensorSpec]:
    """The specs of its arguments, flat."""
    return tf.nest.flatten(self.plan.arguments)


def trace(program: step_lib.Program, plan: plan_lib.Plan) -> TracedProgram:
  """Traces a program as one replica of many.

  Raises:
    InputError: the input has a dtype that XLA devices lack.
    core_results.TooLarge: the results of so many groups exceed plan.limit_bytes.
    ModelFnError: the model_fn raised.
  """
  check_dtypes(plan.kind, plan.element_spec)
  limit = plan.limit_bytes if plan.length > 1 else _NO_LIMIT
  limited = dataclasses.replace(plan, limit_bytes=limit)
  found: list[tuple[Any, step_lib.TracedStep]] = []

  def run(*flat):
    # A concrete function has flat arguments; Octet's plans have structures. The program leaves its
    # results in the cores' variables and returns nothing: the host would otherwise wait for a copy
    # after each program.
    found.append(program.run_stack(limited, *tf.nest.pack_sequence_as(plan.arguments, flat)))

  # With jit_compile, TensorFlow keeps the values for a branch's gradient in tensors. Otherwise it
  # keeps them in optionals, which XLA lacks.
  function = tf.function(run, autograph=False, jit_compile=True)
  concrete = function.get_concrete_function(*tf.nest.flatten(plan.arguments))
  kept, step = found[-1]
  return TracedProgram(plan, concrete, program.global_step, step, kept)


def trace_longest(program: step_lib.Program, plan: plan_lib.Plan, platform: str) -> TracedProgram:
  """Traces the longest program of at most plan.length steps or groups that the devices run well.

  The trace shows the size of the groups' results. If it exceeds plan.limit_bytes, the program gets
  fewer groups, or one if not even two groups fit. It shows convolutions, too: a training with them
  has one step a program on a CPU. Raises the other errors of `trace`.

  Args:
    program: the step.Program, traced as one replica of many.
    plan: the plan.
    platform: of the devices: "cpu", "gpu" or "tpu".
  """
  while True:
    try:
      traced = trace(program, plan)
    except core_results.TooLarge as error:
      plan = dataclasses.replace(plan, length=max(error.groups, 1))
      continue
    # XLA has fast kernels for a CPU's convolutions outside of loops alone: in a loop, the gradient
    # of a kernel took 20 to 90 times as long (jaxlib 0.10.2; github.com/jax-ml/jax/issues/12868).
    if not (platform == "cpu" and plan.length > 1 and _has_kernel_gradients(traced.concrete.graph)):
      return traced
    plan = dataclasses.replace(plan, length=1)


def _has_kernel_gradients(graph):
  return any("BackpropFilter" in operation.type for operation in graph_operations.walk(graph))


def of(traced: TracedProgram, store: Any, replicas: int) -> pjrt_program.Source:
  """Makes a program of one of many replicas that takes a stack. Lowers it on demand.

  Args:
    traced: the program.
    store: the VariableStore of its variables.
    replicas: the number of devices that run it together.

  Raises:
    LowerError: Octet cannot remove the variables. `Source.lower` raises the same if XLA cannot
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
  arguments += [
    _argument(f":input/{index}", spec, pjrt_program.Role.INPUT) for index, spec in enumerate(leaves)
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
  return pjrt_program.Source(signature, digest, graph_digest.versions(), lower)


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

  def __init__(self, traced: TracedProgram, store: Any) -> None:
    self.variables = store.on_xla
    self._kind = traced.plan.kind
    self._source = of(traced, store, self.variables.devices.count)
    self.variables.prepare(self._source)

  @functools.cached_property
  def executable(self) -> Any:
    """The execution.Executable."""
    return self.variables.compile(self._source, self._kind)

  def put(self, stacked: Sequence[Any]) -> dict[str, Any]:
    """Puts a stack on the devices.

    Args:
      stacked: for each device of this process its element, a nest of eager tensors.
    """
    of_cores = [tf.nest.flatten(element) for element in stacked]
    return self.executable.put_inputs(
      {
        each.name: [np.asarray(leaves[index]) for leaves in of_cores]
        for index, each in enumerate(self._source.signature.of_roles(pjrt_program.Role.INPUT))
      }
    )

  def give_variables(self) -> None:
    """Copies the program's missing variables to the devices, see XlaVariables.give."""
    self.variables.give(self._source.signature.variables)

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
