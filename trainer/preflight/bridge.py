"""Takes a whole device loop through TensorFlow's own TPU bridge, the host's side included.

    bridged = Loops(experiment, replicas=8, per_core={"train": 128}).bridge("train", element)

The bridge is the part of TensorFlow that makes of a traced function what a TPU's host runs: one
region that is replicated over the cores, with one cluster that is compiled for them, the variables
that are read and assigned around it, and the operations that stay on the host. It is in the wheel
for CPUs too, and needs no TPU.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from trainer import errors, spec
from trainer.inputs import stacks
from trainer.preflight import bindings, fake_tpu
from trainer.programs import (
  abstract_variables,
  device_loops,
  graph_operations,
  multi_group,
  multi_step,
)
from trainer.programs import plan as plan_lib
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind

_PIPELINE = "tf-replicated-clustering-bridge-v2"

# What the bridge itself leaves beside a cluster, and copies that cost nothing.
_PASSIVE = ("Identity", "IdentityN", "NoOp", "TPUReplicatedOutput")


@dataclasses.dataclass(frozen=True)
class Bridged:
  """A device loop after the bridge.

  Attributes:
    clusters: the programs that are compiled for the cores.
    replicas: the cores that each of them runs on.
    steps_per_program: the steps, or groups of an evaluation or a prediction, that a program does
      before the host acts.
    host_ops_in_loop: the host's operations inside of the loop that use what the replicas computed,
      each as "type" or "type (file:line)". The host waits for the step there.
    stacked_input_bytes: of a program's input, for one core.
    result_bytes: what the host reads from one core after such a program; of a training, after a
      device loop, however many programs it has.
    input_bytes_per_step: for one core.
    result_bytes_per_step: result_bytes by the steps of the program.
  """

  clusters: int
  replicas: int
  steps_per_program: int
  host_ops_in_loop: list[str]
  stacked_input_bytes: int
  result_bytes: int
  input_bytes_per_step: int
  result_bytes_per_step: float


class BridgeError(errors.OctetError, RuntimeError):
  """TensorFlow's TPU bridge refuses a device loop."""


class Loops:
  """The device loops of an experiment, as a TPU's host would trace them.

  Args:
    experiment: the experiment.
    replicas: number of cores.
    per_core: kind → per-core batch size.
  """

  def __init__(
    self, experiment: bindings.Experiment, replicas: int, per_core: Mapping[Any, int]
  ) -> None:
    self._replicas = replicas
    program = step_lib.Program(
      spec.ModelFn(experiment.model_fn),
      strategy=fake_tpu.strategy(replicas),
      params=dict(experiment.params, use_tpu=True),
      batch_sizes=per_core,
      config=experiment.config,
    )
    # Where a slice has several hosts, each makes stacks of its own.
    several_hosts = replicas > fake_tpu.CORES_OF_A_HOST
    stacked = frozenset([Kind.TRAIN] if several_hosts else [])
    target = plan_lib.Target(replicas, stacked=stacked)
    self._loops = device_loops.DeviceLoops(program, experiment.config, target)
    self._host_call_every = experiment.config.tpu_config.host_call_every_n_steps

  def bridge(self, kind: Kind, element: Any) -> Bridged:
    """Traces the device loop of a kind and takes it through the bridge.

    Args:
      kind: the kind.
      element: the specs of one core's batch.

    Raises:
      BridgeError: the bridge refuses it.
      ModelFnError: the model_fn raised.
      SettingError: TPUConfig.steps_per_program cannot be had.
    """
    # The weights of a model that fills eight cores need not fit into this machine's memory.
    traced: Any
    with tf.variable_creator_scope(abstract_variables.without_values):
      if kind == Kind.TRAIN:
        traced = self._loops.trace_training(element, is_endless=True)
      else:
        traced = self._loops.trace_groups(kind, _group_spec(element, self._replicas))
    module = convert(traced.function)
    steps, result_bytes = _program_of(traced)
    in_program = steps
    if kind == Kind.TRAIN and traced.step.host_fn is not None:
      in_program = min(steps, self._host_call_every)
    step_bytes = stacks.bytes_of_step(element)
    return Bridged(
      clusters=module.count("tf_device.cluster_func"),
      replicas=_replicas(module),
      steps_per_program=in_program,
      host_ops_in_loop=host_operations(traced.function.graph),
      stacked_input_bytes=steps * step_bytes,
      result_bytes=result_bytes,
      input_bytes_per_step=step_bytes,
      result_bytes_per_step=result_bytes / in_program,
    )


def _program_of(traced):
  """Returns (steps of a program, bytes that the host reads from a core)."""
  if isinstance(traced, multi_group.GroupProgram):
    return traced.plan.length, traced.plan.length * traced.bytes_of_group
  if isinstance(traced, multi_step.StepsProgram):
    kept = [*traced.totals.variables(), *traced.step.scalars.values()]
    return traced.plan.length, sum(map(_bytes_of, kept))
  return 1, _bytes_of_results(traced.function.graph)


def _group_spec(element, replicas):
  """The spec of a group, see `trainer.inputs.groups`."""
  element = tf.nest.map_structure(
    lambda leaf: tf.TensorSpec([replicas, *leaf.shape], leaf.dtype), element
  )
  return element, tf.TensorSpec([replicas], tf.int64)


def convert(traced: tf.types.experimental.ConcreteFunction) -> str:
  """Takes a traced function through the bridge; returns the module as text.

  Raises:
    BridgeError: the bridge refuses it.
  """
  try:
    module = tf.mlir.experimental.convert_function(traced, pass_pipeline="")
    return tf.mlir.experimental.run_pass_pipeline(module, _PIPELINE)
  except tf.errors.OpError as error:
    first = error.message.strip().splitlines()[0]
    what = re.sub(r"^-:\d+:\d+: error: ", "", first)
    raise BridgeError(f"TensorFlow's TPU bridge refuses the loop: {what[:500]}") from None


def _replicas(module):
  """Returns how many cores the regions of a module are for; 0 without a region."""
  found = re.findall(r"tf_device\.replicate.*?\{[^{}]*\bn = (\d+) : i32", module)
  return int(found[0]) if found else 0


def host_operations(graph: tf.Graph) -> list[str]:
  """Lists the host's operations inside of a loop that use what the replicas computed.

  Args:
    graph: of a traced device loop. A function that a host calls once a program is a loop's body
      itself; where it has a loop on the host, that loop's body is looked at.
  """
  return [_described(operation) for body in _bodies(graph) for operation in _users(_results(body))]


def _bodies(graph):
  """The graphs of what the host does for one call of the cores; of a step, where it calls each."""
  return [body for body in _loop_bodies(graph) if _results(body)] or [graph]


def _bytes_of_results(graph):
  """The bytes that one core hands to the host in one call."""
  return sum(
    _bytes_of(operation.outputs[0]) for body in _bodies(graph) for operation in _results(body)
  )


def _bytes_of(tensor):
  return tensor.shape.num_elements() * tensor.dtype.size


def _loop_bodies(graph: tf.Graph) -> Iterator[tf.Graph]:
  for operation in graph.get_operations():
    if operation.type in ("While", "StatelessWhile"):
      yield from graph_operations.called_graphs(operation)


def _results(graph):
  """The operations that hand what the replicas computed to the host."""
  return [each for each in graph.get_operations() if each.type == "TPUReplicatedOutput"]


def _users(operations):
  """The operations that use the results of others, directly or not."""
  waiting, found = list(operations), {}
  while waiting:
    for tensor in waiting.pop().outputs:
      for user in tensor.consumers():
        if user.name not in found:
          found[user.name] = user
          waiting.append(user)
  return [user for user in found.values() if user.type not in _PASSIVE]


def _described(operation):
  place = graph_operations.place_of(operation)
  return f"{operation.type} ({place})" if place else operation.type
