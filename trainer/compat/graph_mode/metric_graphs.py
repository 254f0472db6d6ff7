"""What a model_fn computes of the values of metrics: computed again on the host.

    precision, recall = tf.metrics.precision(y, p), tf.metrics.recall(y, p)
    f1 = 2 * precision[0] * recall[0] / (precision[0] + recall[0])
    eval_metric_ops={"f1": (f1, tf.group(precision[1], recall[1]))}

The operations between the values and the result are copied from the graph of the model_fn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors

v1 = tf.compat.v1


class Computed:
  """An entry of eval_metric_ops.

  Args:
    name: its name.
    metric: (value, update_op): those of one of tf.metrics's functions, or computed of such.
    pairs: what functions of tf.metrics returned in this model_fn, (value, update_op) each.

  Attributes:
    needs: which of the pairs, by their indices.

  Raises:
    SpecError: the metric is something else.
  """

  def __init__(self, name: str, metric: Any, pairs: Sequence[tuple[tf.Tensor, tf.Tensor]]):
    if not (isinstance(metric, tuple | list) and len(metric) == 2 and tf.is_tensor(metric[0])):
      raise errors.SpecError(
        f"eval_metric_ops[{name!r}] is {metric!r}: expected a pair (value, update_op), as "
        "functions of tf.metrics return it, or a Keras metric."[:600]
      )
    self._name = name
    self._value = metric[0]
    self._of = {id(tensor): index for index, pair in enumerate(pairs) for tensor in pair}
    self._stand_ins = {id(tensor): tensor for pair in pairs for tensor in pair}
    self._operations, inputs = self._walk(self._value)
    _, updates = self._walk(metric[1])
    self.needs = sorted({self._of[key] for key in (*inputs, *updates)})
    self._inputs = inputs
    if not inputs:
      raise errors.SpecError(
        f"eval_metric_ops[{name!r}]: the value {self._value!r} is of no function of tf.metrics. A "
        "value of the batch is tf.metrics.mean(value)."
      )

  def _walk(self, start: Any) -> tuple[list[tf.Operation], list[int]]:
    """(operations up to a tensor or operation, in their order; stand-ins that they begin with)."""
    operations: dict[str, tf.Operation] = {}
    inputs: list[int] = []
    waiting = [start]
    while waiting:
      one = waiting.pop()
      if id(one) in self._stand_ins:
        inputs.append(id(one))
        continue
      operation = one if isinstance(one, tf.Operation) else one.op
      if operation.name in operations:
        continue
      is_of_step = operation.op_def.is_stateful or operation.type.startswith("Placeholder")
      if is_of_step or (not operation.inputs and operation.type not in ("Const", "NoOp")):
        raise errors.SpecError(
          f"eval_metric_ops[{self._name!r}] depends on {operation.name!r} ({operation.type}), "
          "another one in each batch: compute with what functions of tf.metrics return and with "
          "constants, or return TPUEstimatorSpec(eval_metrics=(metric_fn, tensors))."
        )
      operations[operation.name] = operation
      waiting += [*operation.inputs, *self._updates(operation)]
    return list(operations.values()), inputs

  def _updates(self, operation: tf.Operation) -> list[tf.Tensor]:
    """What tf.group is of: stand-ins, or further groups."""
    stand_ins = {tensor.op.name: tensor for tensor in self._stand_ins.values()}
    return [
      stand_ins.get(before.name, before)
      for before in operation.control_inputs
      if before.name in stand_ins or before.type in ("NoOp", "Identity")
    ]

  def on_host(self, counted: Mapping[int, tuple[tf.Tensor, tf.Tensor]]) -> Any:
    """The pair, of those of tf.metrics that were called on the host, by their indices."""
    values = {key: counted[self._of[key]][0] for key in self._inputs}
    if id(self._value) in values:
      return counted[self._of[id(self._value)]]
    definition = tf.compat.v1.GraphDef()
    for operation in self._operations:
      node = definition.node.add()
      node.CopyFrom(operation.node_def)
      node.attr.pop("_class", None)
      kept = [name for name in node.input if not name.startswith("^")]
      node.ClearField("input")
      node.input.extend(kept)
      node.device = ""
    (value,) = tf.graph_util.import_graph_def(
      definition,
      input_map={self._stand_ins[key].name: tensor for key, tensor in values.items()},
      return_elements=[self._value.name],
      name="",
    )
    return value, value
