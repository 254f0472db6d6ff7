"""The device loops of a Program, which an Estimator runs on its device."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import run_config
from trainer.inputs import groups as input_groups
from trainer.programs import (
  eval_loop,
  host_call,
  multi_step,
  predict_loop,
  traced_program,
  train_loop,
  xla_groups,
  xla_steps,
)
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind

TracedTraining = train_loop.TracedLoop | multi_step.StepsProgram
TracedGroups = eval_loop.TracedEvaluation | predict_loop.TracedPrediction | xla_groups.GroupProgram


class DeviceLoops:
  """Traces the loops of the device, once for each kind of input.

  Args:
    program: the step.Program.
    config: the RunConfig.
    target: the Target of the device.

  Attributes:
    program: see Args.
    planner: decides which programs there are.
    evaluate: loops over whole batches, and partial batches.
  """

  def __init__(
    self, program: step_lib.Program, config: run_config.RunConfig, target: plan_lib.Target
  ) -> None:
    self.program = program
    self.planner = plan_lib.Planner(config, target)
    self.evaluate = (
      eval_loop.EvalLoop(program, target.replicas)
      if program.store.on_xla is None
      else xla_groups.EvalLoop(program)
    )
    self._target = target
    self._host = host_call.HostCall(config.tpu_config.host_call_every_n_steps)
    self._train = train_loop.TrainLoop(program, target, self._host)
    self._traces: dict[Any, Any] = {}

  def without_traces(self) -> "DeviceLoops":
    """Returns device loops of the same program and variables, without traces."""
    return DeviceLoops(self.program, self.planner.config, self._target)

  def trace_training(self, element_spec: Any, is_endless: bool) -> TracedTraining:
    """Traces a training loop.

    Args:
      element_spec: of the per-core batches.
      is_endless: whether the input has no end.

    Raises:
      SettingError: TPUConfig.steps_per_program is impossible here.
      ModelFnError: the model_fn raised.
    """
    plan = self.planner.plan(Kind.TRAIN, element_spec)

    def trace():
      # One step in a program needs no stack: the loop itself takes batches from the iterator.
      if not plan.is_stacked:
        return self._train.trace(element_spec, is_endless)
      if self.program.store.on_xla is not None:
        return xla_steps.StepsProgram(self.program, plan, self._host)
      # --xla on a CPU or a GPU: TensorFlow's own XLA compiles the loop over the stack.
      traced = traced_program.trace(self.program, plan, jit_compile=True)
      return multi_step.StepsProgram(self.program, traced, self._host)

    return self._once(trace, element_spec, Kind.TRAIN, plan.length, is_endless)

  def trace_groups(
    self, kind: Kind, group_spec: Any, groups: int | None = None, name: str = ""
  ) -> TracedGroups:
    """Traces an evaluation or a prediction.

    Args:
      kind: EVAL or PREDICT.
      group_spec: of the groups, see `trainer.inputs.groups`.
      groups: how many there are, or None.
      name: the evaluation's name.

    Raises:
      ModelFnError: the model_fn raised.
    """
    if self.program.store.on_xla is None:

      def trace_loop():
        if kind == Kind.EVAL:
          return self.evaluate.trace(group_spec, name)
        return predict_loop.trace(self.program, self._target, group_spec)

      return self._once(trace_loop, group_spec, kind, name)

    def trace(plan):
      # The metrics are counted after the groups, so the name of the evaluation does not matter.
      make = lambda: xla_groups.GroupProgram(self.program, plan)
      return self._once(make, group_spec, kind, plan.length)

    core = input_groups.core_spec(group_spec)
    return traced_program.trace_longest(self.planner.plan(kind, core, groups), trace)

  def _once(self, trace: Callable, element_spec: Any, *key: Any) -> Any:
    """Returns the trace for this kind of input and this key; calls `trace` the first time."""
    # The spec may be a dict, which has no hash; an IteratorSpec of it has one.
    key = tf.data.IteratorSpec(element_spec), *key
    if key not in self._traces:
      self._traces[key] = trace()
    return self._traces[key]
