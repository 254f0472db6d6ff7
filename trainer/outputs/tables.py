"""Look-up tables of an exported model.

A SavedModel holds a table only if an attribute of the saved object leads to it. A model_fn or a
serving_input_receiver_fn keeps its tables in local variables, or in those of its module. So tables
are remembered while functions are traced, and those that the functions use are found:

    with tables.remembered() as made:
      ... trace functions ...
    module.tables = tables.used_by(graphs, made)
"""

import contextlib
import contextvars
import gc
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from trainer.internals import patches, tensorflow_internals

_made: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar(
  "tables made in a trace", default=None
)


@contextlib.contextmanager
def remembered() -> Iterator[list[Any]]:
  """Yields a list to which tables are added that are made inside a `with` block."""
  made: list[Any] = []
  patches.install()
  with patches.set_context(_made, made):
    yield made


def used_by(graphs: Iterable[Any], made: list[Any]) -> list[Any]:
  """Returns the tables that functions use.

  Args:
    graphs: the functions' graphs.
    made: what was made while they were traced. Other tables are looked for among all objects of the
      process.
  """
  captured = [tensor for graph in graphs for tensor in graph.external_captures]
  handles = {
    id(tensor)
    for tensor in captured
    if tensor.dtype == tf.resource and not tensorflow_internals.is_variable_handle(tensor)
  }
  if not handles:  # most models have no table, and a process has millions of objects
    return []
  alive = {id(each): each for each in [*made, *gc.get_objects()] if _is_resource(each)}
  return [each for each in alive.values() if id(each.resource_handle) in handles]


def _is_resource(value):
  return issubclass(
    type(value), tf.saved_model.experimental.TrackableResource
  )  # isinstance would ask proxies for their class


@patches.replaces(tf.saved_model.experimental.TrackableResource, "__init__")
def _init(original, resource, *args, **kwargs):
  original(resource, *args, **kwargs)
  if (made := _made.get()) is not None:
    made.append(resource)
