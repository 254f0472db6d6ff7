"""Gives each replica of each trace its own `tf.compat.v1` collections (losses, update ops, ...).

In TF1 each model_fn starts with the empty collections of a new graph. Octet traces a model_fn in
functions that share the process's collections, and traces all replicas in one graph, in threads
that take turns. So each replica of each trace gets its own collections. Other replicas, other
traces and the process do not see a replica's additions.

    collections = graph_collections.GraphCollections(global_step)
    with graph_collections.replace(graph, collections):
      ...
      with collections.replica_scope():  # on each replica, around the model_fn
        ...
        collections.add_variable(variable, [v1.GraphKeys.GLOBAL_VARIABLES])

All replicas share the same variables. A variable appears in a replica's collections as soon as the
model_fn on that replica asks for it.
"""

import collections
import contextlib
import contextvars
import re
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from trainer.internals import patches, tensorflow_internals

v1 = tf.compat.v1

# The name scopes outside of the model_fn, which depend on loops and replicas. StoreRun opens the
# scope "model_fn".
OUTER_SCOPES = re.compile(r"^.*?\bmodel_fn(_\d+)?/")

# The collections of the replica that this context traces; None in a merge_call.
_own: contextvars.ContextVar[dict[Any, list] | None] = contextvars.ContextVar(
  "collections of this replica", default=None
)


class GraphCollections(collections.UserDict):
  """Replaces the collections of a graph; looks up keys in the collections of the current replica.

  A merge_call, in which a strategy acts for all replicas, has its own collections. These
  collections start empty.

  Args:
    global_step: what `tf.compat.v1.train.get_global_step()` returns on each replica, or None.
  """

  def __init__(self, global_step: tf.Variable | None = None) -> None:
    self._global_step = global_step
    self._in_merge_call: dict[Any, list] = {}
    self._replicas: list[dict[Any, list]] = []

  @contextlib.contextmanager
  def replica_scope(self) -> Iterator[None]:
    """Gives the current thread the collections of a new replica while the context is open."""
    own = {}
    if self._global_step is not None:
      own[v1.GraphKeys.GLOBAL_STEP] = [self._global_step]
    self._replicas.append(own)
    with patches.set_context(_own, own):
      yield

  def add_variable(self, variable: tf.Variable, keys: Iterable[Any]) -> None:
    """Adds a variable to collections: of this replica or, in a merge_call, of every replica.

    Args:
      variable: the variable. A collection that holds it already stays unchanged.
      keys: the keys of the collections.
    """
    own = _own.get()
    for replica in self._replicas if own is None else [own]:
      for key in dict.fromkeys(keys):
        members = replica.setdefault(key, [])
        if not any(member is variable for member in members):
          members.append(variable)

  @property
  def data(self) -> dict[Any, list]:  # type: ignore[override]
    """The collections of the current replica, or of the merge_call."""
    own = _own.get()
    return self._in_merge_call if own is None else own


@patches.replaces(tf.Graph, "get_collection")
def _get_collection(original, graph, name, scope=None):
  """Finds operations and tensors by the scopes of the model_fn, too.

  A tf.Graph compares whole names, and around a model_fn are scopes of the loop and the replica.
  """
  if scope is None or _own.get() is None:
    return original(graph, name, scope)
  wanted = re.compile(scope)
  return [
    member
    for member in original(graph, name)
    if (found := _name(member)) is not None
    and (wanted.match(found) or wanted.match(OUTER_SCOPES.sub("", found, count=1)))
  ]


def _name(member):
  operation = getattr(member, "op", None)
  if isinstance(member, tf.Variable) and isinstance(operation, tf.Operation):
    return operation.name  # what an assignment returns has no name of its own
  return getattr(member, "name", None)


def copy_of_replica() -> dict[Any, list]:
  """Returns a copy of the current replica's collections, key → list; {} outside of replicas."""
  return {key: list(members) for key, members in (_own.get() or {}).items()}


@contextlib.contextmanager
def replace(graph: tf.Graph, collections: GraphCollections) -> Iterator[None]:
  """Replaces the collections of a graph while the context is open."""
  before = tensorflow_internals.swap_collections(graph, collections)
  try:
    yield
  finally:
    tensorflow_internals.swap_collections(graph, before)
