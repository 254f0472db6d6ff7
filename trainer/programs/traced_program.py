"""A traced program of a Plan, from which the loop, preflight and other runtimes start."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from trainer.programs import core_results
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib

_Traced = TypeVar("_Traced")


@dataclasses.dataclass(frozen=True)
class TracedProgram:
  """A traced program.

  Attributes:
    plan: the plan of the trace.
    concrete: the concrete function of the flat tensors of plan.arguments. For one step it returns
      the step's results; for a stack, nothing.
    global_step: the variable.
    step: the TracedStep of its step.
    kept: the values that a program with a stack leaves in variables of each core: the CoreTotals of
      a training, the CoreResults of groups. None for one step.
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


def trace(
  program: step_lib.Program, plan: plan_lib.Plan, jit_compile: bool | None = None
) -> TracedProgram:
  """Traces a program.

  Raises:
    core_results.TooLarge: the results of so many groups exceed plan.limit_bytes.
    ModelFnError: the model_fn raised.
  """
  found: list[tuple[Any, step_lib.TracedStep]] = []

  def run(*flat):
    # A concrete function has flat arguments; Octet's plans have structures.
    given = tf.nest.pack_sequence_as(plan.arguments, flat)
    if plan.is_stacked:
      # A stacked program leaves its results in the cores' variables and returns nothing: the host
      # would otherwise wait for a copy after each program.
      found.append(program.run_stack(plan, *given))
      return None
    results, step = program.run_step(plan.kind, *given)
    found.append((None, step))
    return results

  function = tf.function(run, autograph=False, jit_compile=jit_compile)
  concrete = function.get_concrete_function(*tf.nest.flatten(plan.arguments))
  kept, step = found[-1]
  return TracedProgram(plan, concrete, program.global_step, step, kept)


def trace_longest(plan: plan_lib.Plan, trace: Callable[[plan_lib.Plan], _Traced]) -> _Traced:
  """Traces the longest program of at most plan.length groups whose results fit.

  The trace shows the size of the groups' results. If it exceeds plan.limit_bytes, the program gets
  fewer groups, or one step if not even two groups fit.

  Args:
    plan: the program.
    trace: function of a Plan that traces it, and may raise TooLarge for a stacked plan.
  """
  while True:
    try:
      return trace(plan)
    except core_results.TooLarge as error:
      plan = plan.of_length(error.groups)
