"""Lets a model_fn have a graph's meaning: of its operations, those run that something fetches.

A session runs what its fetches reach. A tf.function also runs each other operation that changes
state: automatic control dependencies add it. A program of graph mode relies on the first: it makes
a dict of optimizers and returns one of them, or `w.assign(...)` for a hook.

    with fetched_operations.scope():  # around all replicas
      with fetched_operations.record() as made:  # on a replica
        fetched_operations.run_only_fetched()  # the model_fn asks for a graph's meaning
        train_op = ...
        made.fetch(train_op)

What the model_fn made and nothing fetches stays in the graph, where a hook's session finds it, but
automatic control dependencies do not see it, and it is no part of the function. An operation is
fetched if `fetch` says so or if an operation that the model_fn has not made uses it: Octet uses the
loss, the predictions, the tensors of metrics and of the host_call, and the scalars of summaries. In
a branch or a loop of the model_fn, operations run that its outputs reach.
"""

import contextlib
import contextvars
import dataclasses
import traceback
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from trainer.internals import patches, tensorflow_internals
from trainer.tracing import assignments

v1 = tf.compat.v1


Frames = Sequence[tuple[str, int]]


@dataclasses.dataclass
class _Graph:
  """What model_fns made in a graph, by the names of operations.

  Attributes:
    made: all of it.
    fetched: what `fetch` named.
    left_out: what is no part of the function; known when the graph is complete.
    control_inputs: operation → its control inputs before automatic ones were added.
  """

  made: set[str] = dataclasses.field(default_factory=set)
  fetched: set[str] = dataclasses.field(default_factory=set)
  left_out: frozenset[str] = frozenset()
  control_inputs: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


# The graphs in which only what is fetched runs. Names, since operations would keep their graph.
_graphs: weakref.WeakKeyDictionary[Any, _Graph] = weakref.WeakKeyDictionary()


@dataclasses.dataclass
class _Trace:
  """The model_fns of all replicas of a step.

  Attributes:
    inside: how many replicas are in their model_fn.
    merged: what was made between the replicas, while all of them were in it.
    graph: in which the replicas are traced, if only what is fetched runs.
    merging: frames of the newest merge_call, which makes what is merged.
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
    self.graph: Any = None  # of the replica, if only what is fetched runs

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
    """Returns what the model_fn made and changes variables."""
    return _changes_of([*self._own, *self._trace.merged[self._first_merged :]])

  @contextlib.contextmanager
  def inside(self) -> Iterator[list[tf.Operation]]:
    """Yields a list that gets, at the end, what was made while the context was open."""
    own, merged = len(self._own), len(self._trace.merged)
    found: list[tf.Operation] = []
    yield found
    found += [*self._own[own:], *self._trace.merged[merged:]]

  def fetch(self, what: Any) -> None:
    """Has operations run.

    Args:
      what: nest of tensors and operations, and of what an assignment returns.
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
  """Inside, what is made in a model_fn and has a state is fetched, branches too."""
  made = _made.get()
  if made is None or not made.runs_only_fetched:
    yield
    return
  with made.inside() as operations:
    yield
  made.fetch([each for each in operations if each.op_def.is_stateful])


def run_only_fetched() -> None:
  """Gives the model_fn of this replica, which has made nothing yet, a graph's meaning."""
  made, trace = _made.get(), _trace.get()
  if made is not None and trace is not None:
    made.graph = trace.graph = v1.get_default_graph()


def that_run(operations: Iterable[tf.Operation]) -> list[tf.Operation]:
  """Returns those of the operations of model_fns that run in a step."""
  left_out: dict[Any, Collection[str]] = {}
  for graph in {operation.graph for operation in operations}:
    found = _graphs.get(graph)
    is_complete = found is not None and found.control_inputs
    if found is not None:
      left_out[graph] = found.left_out if is_complete else _unreached(graph, found, [])
  return [each for each in operations if each.name not in left_out.get(each.graph, ())]


def reached(operations: Iterable[tf.Operation]) -> set[tf.Operation]:
  """Returns operations of a graph and all that they need: by inputs, and by control inputs.

  Automatic control dependencies are left aside in a graph in which only what is fetched runs.
  """
  found: set[tf.Operation] = set()
  waiting = list(operations)
  while waiting:
    operation = waiting.pop()
    if operation not in found:
      found.add(operation)
      waiting += [tensor.op for tensor in operation.inputs]
      waiting += control_inputs(operation)
  return found


def changes(what: Any) -> set[tf.Operation]:
  """Returns the operations that change variables, of those that a fetch of `what` reaches."""
  return set(_changes_of(reached(_operations_of(what))))


@contextlib.contextmanager
def changes_made() -> Iterator[list[tf.Operation]]:
  """Yields a list that gets, at the end, what was made in a model_fn and changes variables."""
  found: list[tf.Operation] = []
  made = _made.get()
  with contextlib.nullcontext(()) if made is None else made.inside() as operations:
    yield found
  found += _changes_of(operations)


def group(operations: Iterable[tf.Operation]) -> tf.Operation:
  """Returns an operation that has those of the operations run that are in the default graph."""
  graph = v1.get_default_graph()
  return tf.group(*[each for each in operations if each.graph is graph])


def _changes_of(operations):
  return [each for each in operations if assignments.changes_a_variable(each.type)]


def _operations_of(what):
  leaves = tf.nest.flatten(what, expand_composites=True)
  found = [leaf if isinstance(leaf, tf.Operation) else getattr(leaf, "op", None) for leaf in leaves]
  return [operation for operation in found if isinstance(operation, tf.Operation)]


def control_inputs(operation: tf.Operation) -> list[tf.Operation]:
  """Returns the control inputs of an operation that are not automatic, as far as is known."""
  graph = operation.graph
  known = _graphs[graph].control_inputs if graph in _graphs else {}
  if operation.name not in known:
    return operation.control_inputs
  return [graph.get_operation_by_name(name) for name in known[operation.name]]


def _unreached(graph, found, returned):
  """Names of what the model_fns made in a graph, and neither a fetch nor Octet needs."""
  fetched = [
    operation
    for operation in graph.get_operations()
    if operation.name not in found.made or operation.name in found.fetched
  ]
  needed = reached([*fetched, *(tensor.op for tensor in returned)])
  return frozenset(found.made - {operation.name for operation in needed})


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
  """Whether a graph is that of a replica, or of a branch or a loop in it.

  It is not in a tf.function: there every operation runs that changes state, in TensorFlow 1 too.
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
  """Notes who merges: another thread does it, whose frames do not show the model_fn."""
  frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None)]
  _trace.get().merging = frames[::-1]
  return original(context, *args, **kwargs)


@patches.replaces(*tensorflow_internals.ADD_CONTROL_DEPENDENCIES)
def _add_control_dependencies(original, dependencies, *args):
  """Chooses what is left out when a graph is complete, before control dependencies are added."""
  graph = None if tf.executing_eagerly() else v1.get_default_graph()
  found = _graphs.get(graph) if graph is not None else None
  if found is not None:
    found.left_out = frozenset()  # an inner context may have chosen already
    for each in graph.get_operations():
      if each.name not in found.control_inputs:
        found.control_inputs[each.name] = tuple(one.name for one in each.control_inputs)
    returned = tensorflow_internals.returned_tensors(dependencies)
    found.left_out = _unreached(graph, found, returned)
  return original(dependencies, *args)


# Control dependencies and the function are made of what this returns.
@patches.replaces(tf.Graph, "get_operations")
def _get_operations(original, graph):
  operations, found = original(graph), _graphs.get(graph)
  if found is None or not found.left_out:
    return operations
  return [operation for operation in operations if operation.name not in found.left_out]
