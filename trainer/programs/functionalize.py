"""Makes a traced function pure: variables become arguments, and their next values results.

    made = functionalize.Functionalized(function.get_concrete_function(...))
    results = made.call(values, arguments)  # made.assigned's next values, then the function's own

TensorFlow can lower a function for a TPU without a TPU only if the function has no variables. This
module repeats the operations of the traced graph in the order of the program: a read becomes the
current value, an assignment becomes the next value. Loops carry the values that they assign,
branches return them, and calls become their functions' operations. `variable_operations` knows what
each operation does to a variable. A stateful random operation counts the draws of a step, as if the
count were a variable that each step sets to 0: `random_operations.drawn`.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import tensorflow_internals
from trainer.programs import (
  graph_operations,
  portable_operations,
  random_operations,
  variable_operations,
)

_LOOPS = ("While", "StatelessWhile")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Operation → its attributes that are functions, in order. A Case has a list of functions instead.
_FUNCTIONS = {
  **dict.fromkeys(_LOOPS, ("cond", "body")),
  **dict.fromkeys(_CALLS, ("f",)),
  **dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch")),
}

# The key of the state for the number of draws since the step began. No variable has this index.
_DRAWS = -1


class ImpureError(errors.OctetError, RuntimeError):
  """Octet cannot make a function pure.

  Attributes:
    operation: the operation that prevents it.
  """

  def __init__(self, operation: tf.Operation, why: str) -> None:
    place = graph_operations.place_of(operation)
    super().__init__(f"{operation.type}{f' ({place})' if place else ''} {why}")
    self.operation = operation


@dataclasses.dataclass(frozen=True)
class _Handle:
  """A variable's handle, during the repetition of a graph's operations."""

  index: int


class Functionalized:
  """A traced function without variables.

  Args:
    traced: the function.
    step: the handle of the global step, if replicas run the function: random numbers follow from
      the step and the replica. None for any other function: its numbers follow from the seed.

  Attributes:
    handles: eager handles of the variables, in the order of their values in `call`.
    specs: tf.TensorSpec of each.
    assigned: indexes of the variables that the function assigns, in the order of their next values.
    arguments: tf.TensorSpec of each argument of the traced function, flat.
    operations: name of an operation made by `call` → the operation of the traced function.

  Raises:
    ImpureError: an operation uses a resource in an unknown way.
  """

  def __init__(
    self, traced: tf.types.experimental.ConcreteFunction, step: tf.Tensor | None = None
  ) -> None:
    self._graph = traced.graph
    # A graph captures a handle as a placeholder. Other captured tensors are constants here.
    self._captured: dict[Any, Any] = {}  # of a placeholder: a _Handle, or the tensor itself
    self.handles: list[tf.Tensor] = []
    self.specs: list[tf.TensorSpec] = []
    self.operations: dict[str, tf.Operation] = {}
    self._step: int | None = None  # the index of the global step
    self._is_of_replicas = step is not None
    for outside, inside in self._graph.captures:
      spec = tensorflow_internals.spec_of_handle(outside)
      if spec is None:
        self._captured[inside.ref()] = outside
        continue
      self._captured[inside.ref()] = _Handle(len(self.handles))
      if outside is step:
        self._step = len(self.handles)
      self.handles.append(outside)
      self.specs.append(spec)
    # A graph's inputs are the function's own arguments, then its captures.
    own = len(self._graph.inputs) - len(self._graph.captures)
    self.arguments = [tf.TensorSpec(each.shape, each.dtype) for each in self._graph.inputs[:own]]
    captured = [self._captured.get(tensor.ref()) for tensor in self._graph.inputs]
    self.assigned = sorted(_assigned(self._graph, captured) - {_DRAWS})

  def call(self, values: Sequence[tf.Tensor], arguments: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Computes what the traced function computes. Call it during the trace of a tf.function.

    Args:
      values: the values of the variables.
      arguments: the arguments of the traced function, flat.

    Returns:
      The next values of the variables in `assigned`; then the results of the traced function, flat.
    """
    # Each step draws its first random number as number 0, whatever ran before it.
    state = {**dict(enumerate(values)), _DRAWS: tf.constant(0, tf.int64)}
    rest = iter(arguments)
    given = [
      self._captured[tensor.ref()] if tensor.ref() in self._captured else next(rest)
      for tensor in self._graph.inputs
    ]
    results = self._go_through(self._graph, given, state)
    results = [*(state[index] for index in self.assigned), *results]
    if source := portable_operations.source_of_size(results):
      raise ImpureError(
        self.operations[source.name],
        "has a data-dependent number of rows, and so has a result of the program: arrays on a "
        "device have a fixed size. Give tf.where its two other arguments, or multiply by the mask.",
      )
    return results

  def operation_in(self, message: str) -> tf.Operation | None:
    """Returns the operation of the traced function that an error message of XLA names."""
    # XLA writes names in two forms, depending on which of its passes fails.
    for name in re.findall(r"\{\{node ([^}]+)\}\}|node `([^`]+)`", message):
      if operation := self.operations.get("".join(name)):
        return operation
    return None

  def _go_through(self, graph, given, state, prefix=""):
    """Repeats a graph's operations; returns its outputs and updates the state."""
    made = {tensor.ref(): value for tensor, value in zip(graph.inputs, given, strict=True)}
    for operation in _in_order(graph):
      # Inputs and captures: `given` has their values.
      if operation.type == "Placeholder":
        continue
      inputs = [made[tensor.ref()] for tensor in operation.inputs]
      outputs = self._again(operation, inputs, state, prefix)
      made.update(
        (tensor.ref(), value) for tensor, value in zip(operation.outputs, outputs, strict=True)
      )
    return [made[tensor.ref()] for tensor in graph.outputs]

  def _again(self, operation, inputs, state, prefix):
    """Repeats an operation; returns its outputs."""
    # Loops, branches and calls come first: they may take handles, and have no rule of their own.
    rule = variable_operations.RULES.get(operation.type)
    if operation.type in _LOOPS:
      return self._loop(operation, inputs, state)
    if operation.type in _BRANCHES:
      return self._branch(operation, inputs, state)
    if operation.type in _CALLS:
      ((graph,), _) = _called(operation)
      return self._go_through(graph, inputs, state, f"{prefix}{operation.name}/")
    if operation.type in random_operations.STATEFUL:
      return self._draw(operation, inputs, state, prefix)
    # From here on, an operation without a handle cannot change a variable: copy it, unless it has
    # another resource as an input, which no argument can replace.
    if not any(isinstance(value, _Handle) for value in inputs):
      if any(tensor.dtype == tf.resource for tensor in operation.inputs):
        raise ImpureError(
          operation, "works with host-only objects, such as a look-up table: do it in the input_fn."
        )
      with tf.name_scope(f"{prefix}{operation.name}/"):
        replaced = portable_operations.replaced(operation, inputs)
      return self._copy(operation, inputs, prefix) if replaced is None else replaced
    # The handle itself passes on: an Identity of a handle is the same variable.
    if operation.type == "Identity":
      return inputs
    if rule is None:
      raise ImpureError(
        operation,
        "uses a variable in a way that programs for XLA devices do not have: read the variable, or "
        "call its assign, assign_add or assign_sub.",
      )
    now = [state[value.index] if isinstance(value, _Handle) else value for value in inputs]
    names = [argument.name for argument in operation.op_def.input_arg]
    attributes = {name: operation.get_attr(name) for name in rule.attributes}
    with tf.name_scope(f"{prefix}{operation.name}/"):
      found = rule.compute(**dict(zip(names, now, strict=True)), **attributes)
    if not rule.assigns:
      return [found]
    for name, value in zip(rule.assigns, found, strict=True):
      index = inputs[names.index(name)].index
      # The traced graph may not know the shape, and a loop carries none that is unknown.
      value.set_shape(self.specs[index].shape)
      state[index] = value
      # Assigning the global step begins the next step of a loop: its draws count from 0 again.
      if index == self._step:
        state[_DRAWS] = tf.constant(0, tf.int64)
    return [now[names.index(rule.returns)]] if rule.returns else []

  def _draw(self, operation, inputs, state, prefix):
    # The replica's number must come from the program: XLA compiles one program for all replicas.
    none = tf.constant(0, tf.int64)
    step = none if self._step is None else state[self._step]
    with tf.name_scope(f"{prefix}{operation.name}/"):
      replica = tensorflow_internals.xla_replica_id() if self._is_of_replicas else none
      drawn = random_operations.drawn(operation, inputs, step, replica, state[_DRAWS])
      state[_DRAWS] += 1
    if drawn is None:
      raise ImpureError(
        operation,
        "draws random numbers of a size or kind without a seeded equivalent on an XLA device: take "
        "an operation of tf.random.stateless_... or a Keras layer.",
      )
    return drawn

  def _copy(self, operation, inputs, prefix):
    attributes = dict(operation.node_def.attr)
    # `_class` colocates with an operation that may not be in the new graph.
    attributes.pop("_class", None)
    if any(_function_names(value) for value in attributes.values()):
      raise ImpureError(
        operation,
        "calls a function in a way that programs for XLA devices do not have: call the function "
        "directly, or through tf.cond, tf.switch_case or tf.while_loop.",
      )
    # compute_device=False: device functions of the surrounding graph would pin the copy.
    copy = tf.compat.v1.get_default_graph().create_op(
      operation.type,
      inputs,
      [tensor.dtype for tensor in operation.outputs],
      name=prefix + operation.name,
      attrs=attributes,
      op_def=operation.op_def,
      compute_device=False,
    )
    self.operations.setdefault(copy.name, operation)
    return copy.outputs

  def _loop(self, operation, inputs, state):
    (condition, body), _ = _called(operation)
    # A tf.while_loop carries values through its body alone: its condition cannot return any.
    if _assigned(condition, inputs):
      raise ImpureError(operation, "assigns a variable or draws a number in its condition.")
    assigned = sorted(_assigned(body, inputs))
    # A value that the loop does not change stays outside of it: XLA then sees constants.
    carried = [
      index
      for index, value in enumerate(inputs)
      if not isinstance(value, _Handle) and _source(body.outputs[index]) != body.inputs[index].name
    ]

    def unpacked(carry):
      # Start from the values before the loop, then replace the carried ones.
      full, now = list(inputs), dict(state)
      for index, value in zip(carried, carry, strict=False):
        full[index] = value
      now.update(zip(assigned, carry[len(carried) :], strict=True))
      return full, now

    def next_carry(*carry):
      full, now = unpacked(carry)
      outputs = self._go_through(body, full, now)
      return [*(outputs[index] for index in carried), *(now[index] for index in assigned)]

    def goes_on(*carry):
      return self._go_through(condition, *unpacked(carry))[0]

    ends = tf.while_loop(
      goes_on,
      next_carry,
      [*(inputs[index] for index in carried), *(state[index] for index in assigned)],
      # The body's shapes, since the first value of a loop may have a more precise shape than the
      # values of its later iterations.
      shape_invariants=[
        *(body.inputs[index].shape for index in carried),
        *(state[index].shape if index == _DRAWS else self.specs[index].shape for index in assigned),
      ],
    )
    full, now = unpacked(ends)
    state.update(now)
    return full

  def _branch(self, operation, inputs, state):
    which, *given = inputs
    graphs, _ = _called(operation)
    assigned = sorted(set().union(*(_assigned(graph, given) for graph in graphs)))

    def branch(graph):
      # A copy: each branch starts from the values before the branching.
      def run():
        now = dict(state)
        outputs = self._go_through(graph, given, now)
        # The constant is for branches that return nothing: tf.cond needs a result.
        return [*outputs, *(now[index] for index in assigned), tf.constant(True)]

      return run

    if operation.type in ("If", "StatelessIf"):
      found = tf.cond(which, branch(graphs[0]), branch(graphs[1]))
    else:
      found = tf.switch_case(which, [branch(graph) for graph in graphs])
    # All branches return all variables that any of them assigns, so that the results match.
    count = len(operation.outputs)
    state.update(zip(assigned, found[count:-1], strict=True))
    return found[:count]


def _called(operation: tf.Operation) -> tuple[list[tf.Graph], Sequence[tf.Tensor]]:
  """Returns the graphs that an operation calls, and the tensors that it passes to each.

  For a loop: the condition and the body. For a branching: the branches, in order.
  """
  attributes = operation.node_def.attr
  names = [attributes[key].func.name for key in _FUNCTIONS.get(operation.type, ())]
  if operation.type in ("Case", "StatelessCase"):
    names = [function.name for function in attributes["branches"].list.func]
  graphs = [tensorflow_internals.function_named(operation.graph, name).graph for name in names]
  # The first input of a branching selects the branch.
  return graphs, operation.inputs[1:] if operation.type in _BRANCHES else operation.inputs


def _assigned(graph: tf.Graph, given: Sequence[Any]) -> set[int]:
  """Returns the indexes of the variables that a graph assigns, given its inputs; _DRAWS too."""
  handles = {
    tensor.name: value
    for tensor, value in zip(graph.inputs, given, strict=True)
    if isinstance(value, _Handle)
  }
  found: set[int] = set()
  for operation in _in_order(graph):
    graphs, tensors = _called(operation)
    if operation.type in random_operations.STATEFUL:
      found.add(_DRAWS)
    for inner in graphs:
      found |= _assigned(inner, [handles.get(tensor.name) for tensor in tensors])
    rule = variable_operations.RULES.get(operation.type)
    # strict=False: one argument of an operation may be a list of several tensors.
    for name, tensor in zip(
      (argument.name for argument in operation.op_def.input_arg), operation.inputs, strict=False
    ):
      if rule is not None and name in rule.assigns and tensor.name in handles:
        found.add(handles[tensor.name].index)
    # A loop returns a handle in the place of its input, as an Identity does.
    if operation.type in ("Identity", *_LOOPS):
      for tensor, output in zip(operation.inputs, operation.outputs, strict=True):
        if tensor.name in handles:
          handles[output.name] = handles[tensor.name]
  return found


def _in_order(graph: tf.Graph) -> Iterator[tf.Operation]:
  """Yields the operations that a function runs, in the order of the program.

  The order of creation, with one exception: a loop's gradient adds inputs to the loop, and creates
  their operations after it.
  """
  needed = _before([*(tensor.op for tensor in graph.outputs), *graph.control_outputs])
  done: set[str] = set()
  for operation in graph.get_operations():
    waiting = [operation] if operation.name in needed else []
    while waiting:
      missing = [each for each in _needs(waiting[-1]) if each.name not in done]
      if missing:
        waiting += missing
        continue
      ready = waiting.pop()
      if ready.name not in done:
        done.add(ready.name)
        yield ready


def _before(operations):
  """Returns the names of operations and of everything that they need."""
  found, waiting = set(), list(operations)
  while waiting:
    operation = waiting.pop()
    if operation.name not in found:
      found.add(operation.name)
      waiting += _needs(operation)
  return found


def _needs(operation):
  return [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]


def _source(tensor):
  """Returns the name of the tensor that this one copies."""
  while tensor.op.type == "Identity":
    tensor = tensor.op.inputs[0]
  return tensor.name


def _function_names(attribute):
  return [function.name for function in (attribute.func, *attribute.list.func) if function.name]
