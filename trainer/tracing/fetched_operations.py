"""Gives a model_fn the semantics of a graph: only fetched operations run.

A session runs the operations that its fetches reach. A tf.function also runs every other operation
that changes state: automatic control dependencies add them. A program of graph mode relies on the
session: it makes a dict of optimizers and returns one of them, or `w.assign(...)` for a hook.

    with fetched_operations.scope():  # around all replicas
      with fetched_operations.record() as made:  # on a replica
        fetched_operations.run_only_fetched()  # the model_fn asks for the semantics of a graph
        train_op = ...
        made.fetch(train_op)

Unfetched operations of the model_fn stay in the graph, where a hook's session finds them, but
automatic control dependencies do not see them, and they are not part of the function. `fetch`, or a
use outside of the model_fn, fetches an operation: Octet uses the loss, the predictions, the tensors
of metrics and of the host_call, and the scalars of summaries. In a branch or a loop of the
model_fn, the operations that its outputs reach run.

A read that waits for nothing gives the value at the start of the step: a session runs it at once,
before assignments that wait for a computation. Automatic control dependencies would put it behind
all assignments that the program made before it: batch norm that a GAN calls for real and for
generated images would read in its second call what the first one assigned. An optimizer of Keras
reads what it has just assigned: its reads stay where it makes them.
"""

import contextlib
import contextvars
import dataclasses
import operator
import traceback
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from trainer.internals import patches, tensorflow_internals
from trainer.tracing import assignments

v1 = tf.compat.v1


Frames = Sequence[tuple[str, int]]

_BRANCHES = ("Case", "If", "While")  # may change the variables in their inputs


@dataclasses.dataclass
class _Graph:
  """The operations of model_fns in a graph, by name.

  Attributes:
    made: all operations of the model_fns.
    fetched: the operations named by `fetch`.
    left_out: the operations outside the function; known when the graph is complete.
    in_order: operations of Keras's optimizers, which rely on the order in which they are made.
    early: reads that run before the assignments that were made before them → their handles.
    control_inputs: operation → its control inputs before TensorFlow added automatic ones.
  """

  made: set[str] = dataclasses.field(default_factory=set)
  fetched: set[str] = dataclasses.field(default_factory=set)
  left_out: frozenset[str] = frozenset()
  in_order: set[str] = dataclasses.field(default_factory=set)
  early: dict[str, str] = dataclasses.field(default_factory=dict)
  control_inputs: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


# The graphs in which only fetched operations run. Names, since operations would keep their graph.
_graphs: weakref.WeakKeyDictionary[Any, _Graph] = weakref.WeakKeyDictionary()


@dataclasses.dataclass
class _Trace:
  """The model_fns of all replicas of a step.

  Attributes:
    inside: the number of replicas that are in their model_fn.
    merged: operations made between the replicas, while all replicas were in their model_fn.
    graph: the graph of the replicas, if only fetched operations run.
    merging: frames of the newest merge_call, which makes the operations in `merged`.
    tracebacks: operation in `merged` → its `merging`.
  """

  inside: int = 0
  merged: list[tf.Operation] = dataclasses.field(default_factory=list)
  graph: Any = None
  merging: Frames = ()
  tracebacks: dict[str, Frames] = dataclasses.field(default_factory=dict)


class Made:
  """The operations that a model_fn makes on one replica, and between the replicas."""

  def __init__(self, trace: _Trace | None) -> None:
    self._trace = trace or _Trace()
    self._own: list[tf.Operation] = []
    self._first_merged = len(self._trace.merged)
    self.graph: Any = None  # of the replica, if only fetched operations run

  def note(self, operation: tf.Operation) -> None:
    """Adds an operation of this replica."""
    self._own.append(operation)

  @property
  def runs_only_fetched(self) -> bool:
    """Whether the model_fn has a graph's meaning."""
    return self.graph is not None

  def traceback(self, operation: tf.Operation) -> Frames:
    """Returns (file, line) of the frames that made an operation, the outermost first."""
    of_merge_call = self._trace.tracebacks.get(operation.name)
    if of_merge_call is not None:
      return of_merge_call
    return [(frame.filename, frame.lineno) for frame in operation.traceback]

  def changes(self) -> list[tf.Operation]:
    """Returns the model_fn's operations that change variables."""
    return _changes_of([*self._own, *self._trace.merged[self._first_merged :]])

  @contextlib.contextmanager
  def inside(self) -> Iterator[list[tf.Operation]]:
    """Yields a list that receives, at the end, the operations made in the context."""
    own, merged = len(self._own), len(self._trace.merged)
    found: list[tf.Operation] = []
    yield found
    found += [*self._own[own:], *self._trace.merged[merged:]]

  def fetch(self, what: Any) -> None:
    """Makes operations run.

    Args:
      what: nest of tensors, operations, and results of assignments.
    """
    for operation in _operations_of(what):
      if operation.graph in _graphs:
        _graphs[operation.graph].fetched.add(operation.name)


_trace: contextvars.ContextVar[_Trace | None] = contextvars.ContextVar(
  "model_fns of a step", default=None
)
_made: contextvars.ContextVar[Made | None] = contextvars.ContextVar(
  "operations of a model_fn", default=None
)


def scope() -> contextlib.AbstractContextManager[None]:
  """Returns a context around the replicas of a step."""
  return patches.set_context(_trace, _Trace())


@contextlib.contextmanager
def record() -> Iterator[Made]:
  """Notes the operations that a model_fn makes on a replica while the context is open."""
  trace = _trace.get()
  made = Made(trace)
  if trace is None:  # outside of a step, as in a test of a model_fn
    yield made
    return
  trace.inside += 1
  try:
    with patches.set_context(_made, made):
      yield made
  finally:
    trace.inside -= 1


def fetch(what: Any) -> None:
  """Has operations of the model_fn of this replica run, see `Made.fetch`."""
  if (made := _made.get()) is not None:
    made.fetch(what)


@contextlib.contextmanager
def fetched_where_made() -> Iterator[None]:
  """Fetches each new stateful operation of a model_fn inside the context, also in branches.

  The operations run in the order in which they are made.
  """
  made = _made.get()
  if made is None or not made.runs_only_fetched:
    yield
    return
  with made.inside() as operations:
    yield
  made.fetch([each for each in operations if each.op_def.is_stateful])
  for each in operations:
    if each.graph in _graphs:
      _graphs[each.graph].in_order.add(each.name)


def run_only_fetched() -> None:
  """Gives the model_fn of this replica, which has no operations yet, the semantics of a graph."""
  made, trace = _made.get(), _trace.get()
  if made is not None and trace is not None:
    made.graph = trace.graph = v1.get_default_graph()


def that_run(operations: Iterable[tf.Operation]) -> list[tf.Operation]:
  """Returns the given operations of model_fns that run in a step."""
  left_out: dict[Any, Collection[str]] = {}
  for graph in {operation.graph for operation in operations}:
    found = _graphs.get(graph)
    is_complete = found is not None and found.control_inputs
    if found is not None:
      left_out[graph] = found.left_out if is_complete else _unreached(graph, found, [])
  return [each for each in operations if each.name not in left_out.get(each.graph, ())]


def reached(
  operations: Iterable[tf.Operation],
  inputs: Callable[[tf.Operation], Sequence[tf.Tensor]] = operator.attrgetter("inputs"),
) -> set[tf.Operation]:
  """Returns operations of a graph and everything that they need, by inputs and control inputs.

  In a graph that runs only fetched operations, it ignores automatic control dependencies.
  """
  found: set[tf.Operation] = set()
  waiting = list(operations)
  while waiting:
    operation = waiting.pop()
    if operation not in found:
      found.add(operation)
      waiting += [tensor.op for tensor in inputs(operation) if not hasattr(tensor, "numpy")]
      waiting += control_inputs(operation)
  return found


def changes(what: Any) -> set[tf.Operation]:
  """Returns the operations that change variables and that a fetch of `what` reaches."""
  return set(_changes_of(reached(_operations_of(what))))


@contextlib.contextmanager
def changes_made() -> Iterator[list[tf.Operation]]:
  """Yields a list that receives, at the end, a model_fn's operations that change variables."""
  found: list[tf.Operation] = []
  made = _made.get()
  with contextlib.nullcontext(()) if made is None else made.inside() as operations:
    yield found
  found += _changes_of(operations)


def group(operations: Iterable[tf.Operation]) -> tf.Operation:
  """Returns an operation that runs the given operations of the default graph."""
  graph = v1.get_default_graph()
  return tf.group(*[each for each in operations if each.graph is graph])


def _changes_of(operations):
  return [each for each in operations if assignments.changes_a_variable(each.type)]


def _operations_of(what):
  leaves = tf.nest.flatten(what, expand_composites=True)
  found = [leaf if isinstance(leaf, tf.Operation) else getattr(leaf, "op", None) for leaf in leaves]
  return [operation for operation in found if isinstance(operation, tf.Operation)]


def control_inputs(operation: tf.Operation) -> list[tf.Operation]:
  """Returns the known control inputs of an operation that are not automatic."""
  graph = operation.graph
  known = _graphs[graph].control_inputs if graph in _graphs else {}
  if operation.name not in known:
    return operation.control_inputs
  return [graph.get_operation_by_name(name) for name in known[operation.name]]


def _unreached(graph, found, returned):
  """Returns the names of a graph's model_fn operations that neither a fetch nor Octet needs."""
  fetched = [
    operation
    for operation in graph.get_operations()
    if operation.name not in found.made or operation.name in found.fetched
  ]
  needed = reached([*fetched, *(tensor.op for tensor in returned)])
  return frozenset(found.made - {operation.name for operation in needed})


def _early(operations, found):
  """Returns the reads that wait for nothing, behind a change of their variable → their handles."""
  early, changed = {}, set()
  for operation in operations:
    if operation.type == "ReadVariableOp":
      handle = operation.inputs[0].op.name
      waits = found.control_inputs.get(operation.name) or operation.name in found.in_order
      if handle in changed and operation.name in found.made and not waits:
        early[operation.name] = handle
    elif assignments.changes_a_variable(operation.type) or operation.type in _BRANCHES:
      changed.update(one.op.name for one in operation.inputs if one.dtype == tf.resource)
  return early


def _note(operation):
  trace, made = _trace.get(), _made.get()
  if made is not None:
    made.note(operation)
    home = made.graph
  elif trace.inside and tf.distribute.in_cross_replica_context():
    trace.merged.append(operation)
    trace.tracebacks[operation.name] = trace.merging
    home = trace.graph
  else:
    return
  if home is not None and _is_part(operation.graph, home):
    _graphs.setdefault(operation.graph, _Graph()).made.add(operation.name)


def _is_part(graph, home):
  """Whether a graph belongs to a replica, or to a branch or a loop in it.

  False for a tf.function: all its stateful operations run, in TensorFlow 1 too.
  """
  while graph is not home:
    if not isinstance(graph, tensorflow_internals.ControlFlowFuncGraph):
      return False
    graph = graph.outer_graph
  return True


@patches.replaces(*tensorflow_internals.CREATE_OPERATION, inside=_trace)
def _create_operation(original, graph, *args, **kwargs):
  operation = original(graph, *args, **kwargs)
  _note(operation)
  return operation


@patches.replaces(tf.distribute.ReplicaContext, "merge_call", inside=_made)
def _merge_call(original, context, *args, **kwargs):
  """Records the frames of a merge_call: it runs in a thread that does not show the model_fn."""
  frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None)]
  _trace.get().merging = frames[::-1]
  return original(context, *args, **kwargs)


@patches.replaces(*tensorflow_internals.ADD_CONTROL_DEPENDENCIES)
def _add_control_dependencies(original, dependencies, *args):
  """Chooses the operations to leave out, in a complete graph before control dependencies."""
  graph = None if tf.executing_eagerly() else v1.get_default_graph()
  found = _graphs.get(graph) if graph is not None else None
  if found is not None:
    found.left_out, found.early = frozenset(), {}  # an inner context may have chosen already
    for each in graph.get_operations():
      if each.name not in found.control_inputs:
        found.control_inputs[each.name] = tuple(one.name for one in each.control_inputs)
    returned = tensorflow_internals.returned_tensors(dependencies)
    found.left_out = _unreached(graph, found, returned)
    found.early = _early(graph.get_operations(), found)
  return original(dependencies, *args)


# TensorFlow makes control dependencies and the function from the result of this method.
@patches.replaces(tf.Graph, "get_operations")
def _get_operations(original, graph):
  operations, found = original(graph), _graphs.get(graph)
  if found is None or not (found.left_out or found.early):
    return operations
  # The gradient of a loop gets outputs after its graph is complete: TensorListPopBack of values
  # that nothing else may need.
  outputs = [tensor.op for tensor in getattr(graph, "outputs", ()) if tensor is not None]
  if any(one.name in found.left_out for one in outputs):
    found.left_out -= {one.name for one in reached(outputs)}
  operations = [operation for operation in operations if operation.name not in found.left_out]
  return _in_order(operations, found.early) if found.early else operations


def _in_order(operations, early):
  """Returns operations with each early read behind its handle."""
  reads: dict[str, list[tf.Operation]] = {}
  for operation in operations:
    if operation.name in early:
      reads.setdefault(early[operation.name], []).append(operation)
  others = (operation for operation in operations if operation.name not in early)
  return [one for each in others for one in (each, *reads.get(each.name, ()))]
