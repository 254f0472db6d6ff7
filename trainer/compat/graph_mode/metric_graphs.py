"""Metrics that a model_fn computes from other metrics, or counts in its own variables.

    precision, recall = tf.metrics.precision(y, p), tf.metrics.recall(y, p)
    f1 = 2 * precision[0] * recall[0] / (precision[0] + recall[0])
    total = tf.get_variable("total", [], trainable=False, collections=[GraphKeys.LOCAL_VARIABLES])
    eval_metric_ops={
      "f1": (f1, tf.group(precision[1], recall[1])),
      "total": (total, total.assign_add(tf.reduce_sum(y))),
    }

The host gets a copy of each operation that depends on such a value or variable. The step sends the
tensors of the batch that those operations need. With several cores, the host updates a variable
with the share of each core in turn. The values follow after all updates.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.compat.graph_mode import graph_copies, host_rows
from trainer.internals import tensorflow_internals
from trainer.tracing import assignments, fetched_operations, variable_store

v1 = tf.compat.v1


class MetricGraph:
  """The entries of eval_metric_ops with pairs of tensors.

  Args:
    metrics: name → (value, update_op). Both come, directly or through operations, from functions of
      tf.metrics or from variables of the program.
    pairs: (value, update_op) of each tf.metrics function that this model_fn has called.
    batch: the number of examples: an int, or a tensor.

  Attributes:
    needs: the indices of the pairs that the metrics need.
    tensors: name → tensor that the step sends to the host, with a row for each example.

  Raises:
    SpecError: a metric has another form.
  """

  def __init__(
    self, metrics: Mapping[str, Any], pairs: Sequence[tuple[tf.Tensor, tf.Tensor]], batch: Any
  ):
    self._batch = batch
    self._store = variable_store.current()
    self._values = {name: _value(name, metric) for name, metric in metrics.items()}
    # Name of an operation → (index of its pair, place in the pair).
    self._stand_ins = {
      tensor.op.name: (index, place)
      for index, pair in enumerate(pairs)
      for place, tensor in enumerate(pair)
    }
    self.tensors: dict[str, tf.Tensor] = {}
    # Name of a tensor of the step → how it reaches the host, or its value outside of a step.
    self._sent: dict[str, host_rows.Sent] = {}
    self._eager: dict[str, tf.Tensor] = {}
    # The order matters. 1. Find the variables that change. 2. Find the operations that depend on
    # them: those run on the host. 3. Send the step's tensors that those operations need. 4. Do the
    # same for the values, which the host computes after the updates.
    updates = _reached([metric[1] for metric in metrics.values()])
    reached = _reached([*self._values.values(), *(metric[1] for metric in metrics.values())])
    self.needs = sorted({self._stand_ins[o.name][0] for o in reached if o.name in self._stand_ins})
    self._variables = _changed_variables(self._store, reached)
    self._on_host = self._depending(reached)
    self._updates: list[tf.Operation] = []
    if self._variables:
      # The host counts the cores by these rows. The updates may need no other tensor of the batch.
      self.tensors["cores"], self._cores = host_rows.send("cores", tf.zeros([batch]), batch)
      changing = [one for one in updates if one.name in self._on_host]
      given = list(itertools.chain.from_iterable(map(assignments.inputs, changing)))
      for tensor in given:
        self._send(tensor)
      # A constant has no value on the host until its operation is copied, so it goes with the
      # updates. A constant may feed several of them: import_graph_def takes each operation once.
      constants = [one.op for one in given if _is_constant(one)]
      self._updates = list({one.name: one for one in [*constants, *changing]}.values())
    self._of_values = {name: self._graph_of(name, value) for name, value in self._values.items()}

  def _depending(self, operations: Iterable[tf.Operation]) -> set[str]:
    """Returns the names of operations that need a changed variable or a pair of tf.metrics."""
    found: set[str] = set()
    # `operations` are in the order of the graph, so each operation comes after those it needs.
    for operation in operations:
      before = [tensor.op.name for tensor in assignments.inputs(operation) if not _is_eager(tensor)]
      before += [one.name for one in fetched_operations.control_inputs(operation)]
      if any(name in found or name in self._stand_ins for name in before) or any(
        self._variable(tensor) is not None for tensor in assignments.inputs(operation)
      ):
        found.add(operation.name)
    return found

  def _variable(self, tensor: tf.Tensor) -> tf.Variable | None:
    """Returns the changed variable that owns the handle `tensor`, or None."""
    if tensor.dtype != tf.resource:
      return None
    return self._variables.get(id(assignments.eager_handle(tensor)))

  def _graph_of(self, name: str, value: tf.Tensor) -> list[tf.Operation]:
    """Returns the operations that compute a value on the host, without the updates' operations."""
    found: dict[str, tf.Operation] = {}
    waiting, is_of_metrics = [value.op], False
    while waiting:
      operation = waiting.pop()
      # Stop at pairs of tf.metrics: the host counts those itself, and `counted` has their values.
      if operation.name in self._stand_ins:
        is_of_metrics = True
      elif operation.name in self._on_host or operation.type == "Const":
        is_of_metrics |= operation.type != "Const"
        found[operation.name] = operation
        waiting += [tensor.op for tensor in operation.inputs if tensor.dtype != tf.resource]
      else:
        _require_no_batch(name, operation)
        for tensor in operation.outputs:
          self._send(tensor)
    if not is_of_metrics:
      raise errors.SpecError(
        f"eval_metric_ops[{name!r}]: the value {value!r} depends on no function of tf.metrics "
        "and on no variable that an update changes. For a value of the batch, use "
        "tf.metrics.mean(value)."
      )
    return list(found.values())

  def _send(self, tensor: tf.Tensor) -> None:
    """Sends a tensor of the step to the host, unless the host can compute or read it."""
    name = assignments.name_of_input(tensor)
    if name in self._sent or _is_constant(tensor) or self._variable(tensor) is not None:
      return
    # Resources and eager tensors exist outside of the step too: capture them, do not send.
    if tensor.dtype == tf.resource:  # such as the handle of a look-up table
      self._eager[name] = assignments.eager_handle(tensor)
    elif _is_eager(tensor):
      self._eager[name] = tensor
    elif tensor.op.name not in self._on_host and tensor.op.name not in self._stand_ins:
      key = f"own/{len(self._sent)}"
      self.tensors[key], self._sent[name] = host_rows.send(key, tensor, self._batch)

  def on_host(
    self, gathered: Mapping[str, tf.Tensor], counted: Mapping[int, tuple[tf.Tensor, tf.Tensor]]
  ) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
    """Updates the variables, and computes the values.

    Args:
      gathered: the rows of `tensors` on the host.
      counted: index → pair of tf.metrics on the host, for each index of `needs`.

    Returns:
      Name → (value, value).
    """
    given = self._eager | self._handles()
    for name, (index, place) in self._stand_ins.items():
      if index in counted:
        given[f"{name}:0"] = tf.convert_to_tensor(counted[index][place])
    if self._updates:
      self._update(given, gathered)
    # After the updates a value needs tensors of one core only: they do not depend on the batch.
    given |= {name: sent.of_core(gathered, 0) for name, sent in self._sent.items()}
    values = {name: self._computed(name, given) for name in self._values}
    return {name: (value, value) for name, value in values.items()}

  def _computed(self, name: str, given: Mapping[str, tf.Tensor]) -> tf.Tensor:
    value = self._values[name].name
    if value in given:
      return given[value]
    return graph_copies.copy(self._of_values[name], given, [value])[0]

  def _handles(self) -> dict[str, tf.Tensor]:
    """Returns name of a handle in the step → handle of its variable's twin on the host."""
    twins: dict[int, tf.Variable] = {}
    found = {}
    operations = itertools.chain(self._updates, *self._of_values.values())
    for tensor in itertools.chain.from_iterable(map(assignments.inputs, operations)):
      variable = self._variable(tensor)
      if variable is not None:
        if id(variable) not in twins:
          twins[id(variable)] = self._twin(variable)
        found[assignments.name_of_input(tensor)] = twins[id(variable)].handle
    return found

  # The step's variable cannot count: each core of the evaluation would count its own examples. The
  # twin starts from the variable's first value.
  def _twin(self, variable: tf.Variable) -> tf.Variable:
    store = self._store

    def initial_value() -> tf.Tensor:
      return store.first_value(variable)

    name = variable.name.partition(":")[0]
    return tf.Variable(
      initial_value, trainable=False, name=name, dtype=variable.dtype, shape=variable.shape
    )

  def _update(self, given: Mapping[str, tf.Tensor], gathered: Mapping[str, tf.Tensor]) -> None:
    """Updates the variables with the share of each core in turn."""

    def body(core: tf.Tensor) -> tf.Tensor:
      sent = {name: one.of_core(gathered, core) for name, one in self._sent.items()}
      graph_copies.copy(self._updates, {**sent, **given}, [])
      return core + 1

    cores = self._cores.cores(gathered)
    if cores is None:
      body(tf.constant(0))
      return
    tf.while_loop(lambda core: core < cores, body, [tf.constant(0)])


def _value(name: str, metric: Any) -> tf.Tensor:
  is_pair = isinstance(metric, tuple | list) and len(metric) == 2
  if not is_pair or not (tf.is_tensor(metric[0]) or isinstance(metric[0], tf.Variable)):
    raise errors.SpecError(
      f"eval_metric_ops[{name!r}] is {metric!r}: expected a pair (value, update_op), as "
      "functions of tf.metrics return it, or a Keras metric."[:600]
    )
  return tf.convert_to_tensor(metric[0])


def _reached(wanted: Iterable[Any]) -> list[tf.Operation]:
  """Returns the operations that a fetch of `wanted` runs, each after the operations it needs."""
  found = fetched_operations.reached(
    one if isinstance(one, tf.Operation) else one.op for one in wanted
  )
  return [one for one in v1.get_default_graph().get_operations() if one in found]


def _is_eager(tensor: tf.Tensor) -> bool:
  return hasattr(tensor, "numpy")


def _is_constant(tensor: tf.Tensor) -> bool:
  return not _is_eager(tensor) and tensor.op.type == "Const"


def _changed_variables(
  store: variable_store.VariableStore, operations: Iterable[tf.Operation]
) -> dict[int, tf.Variable]:
  """Returns id of a handle → variable, for each variable that the operations change."""
  # Each replica's copy has its own handle, and all of them mean one variable.
  own = {
    id(handle): variable
    for variable in (*store.variables.values(), *store.local_variables())
    for handle in tensorflow_internals.handles(variable)
  }
  found = {}
  for operation in operations:
    left_out = assignments.left_out(operation)
    if assignments.changes_a_variable(operation.type if left_out is None else left_out.kind):
      key = id(assignments.eager_handle(assignments.inputs(operation)[0]))
      found |= {key: own[key]} if key in own else {}
  return found


def _require_no_batch(name: str, operation: tf.Operation) -> None:
  for one in fetched_operations.reached([operation]):
    is_of_batch = one.type == "Placeholder" and one.outputs[0].dtype != tf.resource
    # A stateful operation other than a read, such as a random one, differs from step to step.
    if is_of_batch or (
      one.op_def.is_stateful and one.type not in ("ReadVariableOp", "Placeholder")
    ):
      raise errors.SpecError(
        f"eval_metric_ops[{name!r}] depends on {one.name!r} ({one.type}), which differs from "
        "batch to batch: compute the value from results of tf.metrics, from variables that "
        "update_op changes, and from constants; or return "
        "TPUEstimatorSpec(eval_metrics=(metric_fn, tensors))."
      )
