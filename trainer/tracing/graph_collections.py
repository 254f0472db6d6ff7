"""Collections of `tf.compat.v1` (losses, update ops, a program's own) while a model_fn is traced.

A model_fn of TF1 finds the collections of a new graph. Here it is traced in functions whose
collections are those of the process, and its replicas are traced in one graph, in threads that take
turns. So each replica of each trace gets collections of its own: what is added on one is seen on no
other, in no other trace, and not in the process.

    with graph_collections.replace(global_step) as collections:
      ...
      with collections.replica_scope():  # on each replica, around the model_fn
        ...
        collections.add_variable(variable, [v1.GraphKeys.GLOBAL_VARIABLES])

Variables are the same on all replicas, each of which has them from the moment at which its own
model_fn asks for them.
"""

import collections.abc
import contextlib
import contextvars
from collections.abc import Iterable, Iterator

import tensorflow as tf

from trainer.internals import patches, tensorflow_internals

v1 = tf.compat.v1

# The collections of the replica that is being traced in this context, or None between the replicas.
_own = contextvars.ContextVar("collections of this replica", default=None)


class GraphCollections(collections.abc.MutableMapping):
  """Stands in for the collections of a graph: those of the replica that asks.

  What a strategy does for all replicas together, in a merge_call, has its own, empty at first.

  Args:
    global_step: what `tf.compat.v1.train.get_global_step()` returns on each replica, or None.
  """

  def __init__(self, global_step: tf.Variable | None = None):
    self._global_step = global_step
    self._between = {}
    self._replicas = []

  @contextlib.contextmanager
  def replica_scope(self) -> Iterator[None]:
    """Inside, the collections are a new replica's."""
    own = {}
    if self._global_step is not None:
      own[v1.GraphKeys.GLOBAL_STEP] = [self._global_step]
    self._replicas.append(own)
    with patches.set_context(_own, own):
      yield

  def add_variable(self, variable: tf.Variable, keys: Iterable) -> None:
    """Adds a variable to collections, once to each.

    They are those of this replica; of all replicas where it is made for all together.
    """
    own = _own.get()
    for replica in self._replicas if own is None else [own]:
      for key in dict.fromkeys(keys):
        members = replica.setdefault(key, [])
        if not any(member is variable for member in members):
          members.append(variable)

  def _asked(self):
    own = _own.get()
    return self._between if own is None else own

  def __getitem__(self, key):
    return self._asked()[key]

  def __setitem__(self, key, members):
    self._asked()[key] = members

  def __delitem__(self, key):
    del self._asked()[key]

  def __iter__(self):
    return iter(self._asked())

  def __len__(self):
    return len(self._asked())


def copy_of_replica() -> dict:
  """A copy of the collections of the replica that is being traced: dict of key → list."""
  return {key: list(members) for key, members in _own.get().items()}


@contextlib.contextmanager
def replace(global_step: tf.Variable | None = None) -> Iterator[GraphCollections]:
  """Inside, the graph that is traced has GraphCollections."""
  graph = v1.get_default_graph()
  made = GraphCollections(global_step)
  before = tensorflow_internals.swap_collections(graph, made)
  try:
    yield made
  finally:
    tensorflow_internals.swap_collections(graph, before)
