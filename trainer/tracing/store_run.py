"""A run of a function on the replicas of a strategy, with the variables of a VariableStore.

TensorFlow calls the creators of a variable from the innermost scope to the outermost:

| creator                       | called          | does                                           |
|-------------------------------|-----------------|------------------------------------------------|
| StoreRun._collect_on_replica  | on each replica | adds the variable to the replica's collections |
| MirroredStrategy's of threads | on each replica | calls the next for replica 0; else returns it  |
| StoreRun._get_by_name         | on replica 0    | names the variable and asks the store for it   |
| the strategy's of its scope   | on replica 0    | creates the variable, with copies for replicas |

An optimizer makes slots between the replicas, in a merge_call, where `_get_by_name` comes first.
"""

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from trainer.internals import patches, tensorflow_internals
from trainer.tracing import (
  assignments,
  fetched_operations,
  graph_collections,
  keras_scope,
  outside_variables,
  rematerialization,
  variable_creation,
)

v1 = tf.compat.v1

# A function without arguments, and the number of steps between two calls.
Request = tuple[Callable[[], None], int]

# The graph of the current replica's trace; None outside of replicas.
_graph: ContextVar[Any] = ContextVar("graph of this replica", default=None)

# The requests of the replica that this thread traces.
_requests: ContextVar[list[Request]] = ContextVar("requests of this replica")


class UniqueNames:
  """Numbers the names that one trace asks for more than once."""

  def __init__(self) -> None:
    self._asked_for: collections.Counter = collections.Counter()
    self._taken: set[str] = set()

  def unique(self, name: str) -> str:
    """Returns `name` on the first call, then `name_1`, `name_2`: the same in every trace."""
    found = name
    while found in self._taken:
      self._asked_for[name] += 1
      found = f"{name}_{self._asked_for[name]}"
    self._taken.add(found)
    return found

  def copy(self) -> "UniqueNames":
    """Returns names that go on from here on their own."""
    names = UniqueNames()
    names._asked_for, names._taken = self._asked_for.copy(), self._taken.copy()
    return names


@dataclasses.dataclass
class StoreRun:
  """Traces a function on each replica. A continuing run uses the names of the last run.

  Attributes:
    strategy: the strategy whose replicas run the function.
    keras_state: the state of Keras for this trace.
    seed: the run's seed.
    get: `get(next_creator, name, former_name, maker, kwargs)` returns the store's variable of a
      name. `maker` is the keras.Variable around it, or None.
    is_left_out: see `assignments.leave_out`.
    collections: the graph's collections on each replica.
    requests: the functions that each replica has requested, see `request_after_step`.
    changed: the operations that change variables, each with the variable's handle; None for an
      unknown handle.
    names: the names of variables.
    former_names: their names without a rule for Keras's variables.
  """

  strategy: tf.distribute.Strategy
  keras_state: keras_scope.KerasScope
  seed: int
  get: Callable[..., tf.Variable]
  is_left_out: Callable[[tf.Tensor | None], bool]
  collections: graph_collections.GraphCollections
  requests: list[list[Request]] = dataclasses.field(default_factory=list)
  changed: list[tuple[tf.Operation, tf.Tensor | None]] = dataclasses.field(default_factory=list)
  names: UniqueNames = dataclasses.field(default_factory=UniqueNames)
  former_names: UniqueNames = dataclasses.field(default_factory=UniqueNames)

  def run(self, fn: Callable, args: tuple, loop: Callable[..., Any] | None = None) -> Any:
    """Runs fn on each replica, or the loop over it; see `VariableStore.run`."""
    on_replica = functools.partial(self._on_replica, fn)
    if loop is not None:
      on_replica = functools.partial(loop, functools.partial(self._one_step, fn))
    graph = v1.get_default_graph()
    # Without a graph seed, stateful random operations take a seed from the process's eager
    # generator, which depends on everything that ran before.
    graph.seed = self.seed
    with (
      self.keras_state.trace_scope(),
      graph_collections.replace(graph, self.collections),
      fetched_operations.scope(),
      assignments.leave_out(self.is_left_out, lambda *change: self.changed.append(change)),
      # The store's creator must be inside the strategy's scope: TensorFlow calls the innermost
      # creator first, and the strategy's would create a new variable.
      self.strategy.scope(),
      tf.variable_creator_scope(self._get_by_name),
    ):
      # MirroredStrategy traces each replica in a thread of its own, which has no context variables.
      return self.strategy.run(patches.keep_context(on_replica), args)

  def names_as_now(self) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Returns a function that makes contexts with the current names of variables."""
    names = self.names.copy(), self.former_names.copy()

    @contextlib.contextmanager
    def as_now():
      later = self.names, self.former_names
      self.names, self.former_names = (each.copy() for each in names)
      try:
        yield
      finally:
        self.names, self.former_names = later

    return as_now

  def _on_replica(self, fn, *args):
    """Calls fn on the current replica, with the names, seeds and collections of a new graph."""
    self.requests.append(requests := [])
    with (
      self.keras_state.replica_scope(),
      self.collections.replica_scope(),
      # The scopes inside this one name variables. The scopes around it depend on the replica and
      # the loop.
      tf.name_scope("model_fn"),
      tf.variable_creator_scope(self._collect_on_replica),
      patches.set_context(_graph, v1.get_default_graph()),
      rematerialization.replica_scope(self.names_as_now, self.keras_state.as_now),
      patches.set_context(_requests, requests),
    ):
      return fn(*args)

  def _one_step(self, fn, step, *args):
    """Calls fn at a step of a loop on the replica, then the requests that are due."""
    with keras_scope.step_scope(step):
      result = self._on_replica(fn, *args)
      # Each pass of the loop has a new trace: its requests do not belong to the whole run.
      for request, every in self.requests.pop():
        is_due = tf.equal((step + 1) % every, 0)
        tf.cond(is_due, functools.partial(self._call_request, request), lambda: False)
    return result

  def _call_request(self, request):
    self._on_replica(request)
    self.requests.pop()
    return True  # a branch of tf.cond must return something

  def _get_by_name(self, next_creator, **kwargs):
    # Keras passes only the last part of a variable's path ("kernel"); the maker has the whole path.
    maker = self.keras_state.variable_being_made
    # An earlier trace built this layer. The next trace would not ask for its variables.
    if (made_before := self.keras_state.made_before()) is not None:
      outside_variables.note_maker(made_before)
    if maker is None:
      path = former = variable_creation.path(kwargs["name"])
    else:
      path, former = keras_scope.names(maker)
    name, former = self.names.unique(path), self.former_names.unique(former)
    variable = self.get(next_creator, name, former, maker, kwargs)
    # No other creator of Octet runs in a merge_call: this one adds to every replica's collections.
    self.collections.add_variable(variable, variable_creation.collections_of(variable, kwargs))
    return variable

  def _collect_on_replica(self, next_creator, **kwargs):
    # The name of a scope ends in a slash and contains all outer scopes, including the replica's.
    # MirroredStrategy looks up replica 0's variable by this name.
    if (kwargs.get("name") or "").endswith("/"):
      kwargs["name"] = graph_collections.OUTER_SCOPES.sub("", kwargs["name"], count=1)
    variable = next_creator(**kwargs)
    self.collections.add_variable(variable, variable_creation.collections_of(variable, kwargs))
    return variable


def replica_graph() -> tf.Graph | None:
  """Returns the graph of the current replica's trace, or None outside of replicas.

  Inside a branch or an inner function this is not the default graph.
  """
  return _graph.get()


def replica_number() -> int | None:
  """Returns the number of the replica in this trace; None if one trace serves all replicas."""
  context = tf.distribute.get_replica_context()
  if context is None or context.num_replicas_in_sync == 1:
    return None
  number = tf.get_static_value(context.replica_id_in_sync_group)
  return None if number is None else int(number)


def request_after_step(fn: Callable[[], None], every: int) -> None:
  """Requests a call of fn on this replica after every `every` steps. Call it inside `run`.

  A later run calls fn, under a condition on the step. The step itself cannot contain such a
  condition: a merge_call, in which a strategy waits for all replicas, fails inside a branch.

  Args:
    fn: function without arguments.
    every: number of steps between two calls.
  """
  _requests.get().append((fn, every))


@patches.replaces(*tensorflow_internals.CREATE_OPERATION, inside=_graph)
def _create_operation(original, graph, kind, *args, **kwargs):
  """Gives `xla.replica_id()` its value on every device: TensorFlow's kernel for CPUs crashes."""
  context = tf.distribute.get_replica_context() if kind == "XlaReplicaId" else None
  if context is None:
    return original(graph, kind, *args, **kwargs)
  return tf.identity(context.replica_id_in_sync_group, kwargs.get("name")).op


@patches.replaces(*tensorflow_internals.GRADIENTS, inside=_graph)
def _gradients(original, ys, xs, *args, **kwargs):
  """In a loop or a branch, adds the gradients of variables that the graphs around it read.

  Each graph captures the handle of an eager variable by itself, and TensorFlow looks for the
  capture of the innermost graph alone: the gradient of a loss from outside would be None.
  """
  xs = list(xs) if isinstance(xs, list | tuple) else [xs]
  # (index in xs, the handle's placeholder in a graph around this one)
  handles, graph = [], v1.get_default_graph()
  while graph is not replica_graph() and hasattr(graph, "outer_graph"):
    graph = graph.outer_graph
    captured = {id(outer): inner for outer, inner in getattr(graph, "captures", ())}
    found = [(index, captured.get(id(getattr(x, "handle", None)))) for index, x in enumerate(xs)]
    handles += [(index, handle) for index, handle in found if handle is not None]
  gradients = original(ys, [*xs, *(handle for _, handle in handles)], *args, **kwargs)
  own, others = gradients[: len(xs)], gradients[len(xs) :]
  for (index, _), other in zip(handles, others, strict=True):
    if own[index] is not None and other is not None:
      other = tf.convert_to_tensor(own[index]) + tf.convert_to_tensor(other)
    own[index] = own[index] if other is None else other
  return own


@patches.replaces(*tensorflow_internals.DEPENDENT_VARIABLES, inside=_graph)
def _dependent_variables(original, input_ops, output_ops):
  """Finds none: a replica's graph has the handles of variables, and no operation that is one.

  Each all-reduce of a model_fn is a tf.custom_gradient, for which TensorFlow walks through the
  graphs of all replicas. With 40 of them, the trace of eight replicas took minutes.
  """
  if not v1.get_default_graph().building_function:  # a program's own graph
    return original(input_ops, output_ops)
  # As TensorFlow does: the seeds of random operations count all operations.
  tf.nest.map_structure(lambda tensor: tf.raw_ops.Identity(input=tensor), output_ops)
  return []


@patches.replaces(*tensorflow_internals.UPDATE_ON_REPLICA, inside=_graph)
def _update_replica(original, variable, update, value, **kwargs):
  """Lets each replica assign to its own copy under tf.cond, where replicas cannot wait.

  Only for a variable like the global step, where replica 0's value holds for all replicas.
  """
  is_in_branch = v1.get_default_graph() is not replica_graph()
  if is_in_branch and variable.aggregation == tf.VariableAggregation.ONLY_FIRST_REPLICA:
    return update(tensorflow_internals.own_copy(variable), value, **kwargs)
  return original(variable, update, value, **kwargs)
