"""The device loops of a Program: TensorFlow functions, or programs of XLA devices.

| kind       | what it needs of a loop                                | TensorFlow   | XLA devices |
|------------|--------------------------------------------------------|--------------|-------------|
| training   | read(dataset), run(reader, steps), failed_in_input()   | train_loop   | xla_steps   |
| evaluation | read(dataset), start(reader, most), evaluate_partial() | eval_loop    | xla_groups  |
| prediction | read(dataset), run(reader, groups, with_examples)      | predict_loop | xla_groups  |

Each has the TracedStep `step`.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import run_config
from trainer.devices import device as device_lib
from trainer.inputs import groups as input_groups
from trainer.programs import (
  eval_loop,
  host_call,
  host_metrics,
  predict_loop,
  train_loop,
  xla_groups,
  xla_steps,
)
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind

Training = train_loop.TracedLoop | xla_steps.StepsProgram
Groups = eval_loop.Evaluation | predict_loop.TracedPrediction | xla_groups.GroupProgram


class DeviceLoops:
  """Traces the loops of the device, once for each kind of input.

  Args:
    program: the step.Program.
    config: the RunConfig.
    device: the Device.

  Attributes:
    program: see Args.
  """

  def __init__(
    self, program: step_lib.Program, config: run_config.RunConfig, device: device_lib.Device
  ) -> None:
    self.program = program
    self._config = config
    self._device = device
    self._is_one_cpu = device.kind == "cpu" and device.replicas == 1
    self._host = host_call.HostCall(config.tpu_config.host_call_every_n_steps)
    self._train = train_loop.TrainLoop(program, device.replicas, self._is_one_cpu, self._host)
    self._metrics: dict[str, host_metrics.HostMetrics] = {}  # by the evaluation's name
    self._traces: dict[Any, Any] = {}

  def without_traces(self) -> "DeviceLoops":
    """Returns device loops of the same program and variables, without traces."""
    return DeviceLoops(self.program, self._config, self._device)

  def trace_training(self, element_spec: Any, is_endless: bool) -> Training:
    """Traces a training loop.

    Args:
      element_spec: of the per-core batches.
      is_endless: whether the input has no end.

    Raises:
      SettingError: TPUConfig.steps_per_program is impossible here.
      ModelFnError: the model_fn raised.
    """
    if self.program.store.on_xla is None:
      trace = lambda: self._train.trace(element_spec, is_endless)
      return self._once(trace, element_spec, Kind.TRAIN, is_endless)
    plan = plan_lib.plan(self._config, Kind.TRAIN, element_spec)
    trace_steps = lambda: xla_steps.StepsProgram(self.program, plan, self._host)
    return self._once(trace_steps, element_spec, Kind.TRAIN)

  def trace_groups(
    self, kind: Kind, group_spec: Any, groups: int | None = None, name: str = ""
  ) -> Groups:
    """Traces an evaluation or a prediction.

    Args:
      kind: EVAL or PREDICT.
      group_spec: of the groups, see `trainer.inputs.groups`.
      groups: how many there are, or None.
      name: the evaluation's name.

    Raises:
      ModelFnError: the model_fn raised.
    """
    metrics = self._metrics.setdefault(name, host_metrics.HostMetrics(self.program.store))
    program, replicas = self.program, self._device.replicas
    if program.store.on_xla is not None:
      core = input_groups.core_spec(group_spec)
      made = self._group_program(plan_lib.plan(self._config, kind, core, groups))
      trace = lambda: xla_groups.XlaEvaluation(made, metrics, self._group_program)
      return made if kind == Kind.PREDICT else self._once(trace, group_spec, made, name)
    if kind == Kind.PREDICT:
      predict = lambda: predict_loop.trace(program, replicas, self._is_one_cpu, group_spec)
      return self._once(predict, group_spec, kind)
    evaluate = lambda: eval_loop.TracedEvaluation(program, replicas, group_spec, metrics)
    return self._once(evaluate, group_spec, kind, name)

  def _group_program(self, plan: plan_lib.Plan) -> xla_groups.GroupProgram:
    """Returns the program of a plan for groups."""
    trace = lambda: xla_groups.GroupProgram(self.program, plan)
    return self._once(trace, plan.element_spec, plan.kind, plan.length)

  def _once(self, trace: Callable, element_spec: Any, *key: Any) -> Any:
    """Returns the trace for this kind of input and this key; calls `trace` the first time."""
    # The spec may be a dict, which has no hash; an IteratorSpec of it has one.
    key = tf.data.IteratorSpec(element_spec), *key
    if key not in self._traces:
      self._traces[key] = trace()
    return self._traces[key]
