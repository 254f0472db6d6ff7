"""Look-up tables of an exported model.

A SavedModel holds a table only if an attribute of the saved object leads to it. A model_fn or a
serving_input_receiver_fn keeps its tables in local variables, or in variables of its module. So
this module records tables during a trace, and finds the ones that the functions use:

    with tables.remembered() as made:
      ... trace functions ...
    module.tables = tables.used_by(graphs, made)
"""

import contextlib
import contextvars
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from trainer.internals import live_objects, patches, tensorflow_internals

_made: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar(
  "tables made in a trace", default=None
)


@contextlib.contextmanager
def remembered() -> Iterator[list[Any]]:
  """Yields a list that collects the tables made inside a `with` block."""
  made: list[Any] = []
  with patches.set_context(_made, made):
    yield made


def used_by(graphs: Iterable[Any], made: list[Any]) -> list[Any]:
  """Returns the tables that functions use.

  Args:
    graphs: the functions' graphs.
    made: the tables made during their trace. For other tables, the function searches all objects of
      the process.
  """
  # A traced function captures a table by its handle, a resource like a variable's. The graph does
  # not have the Python object that owns the handle.
  captured = [tensor for graph in graphs for tensor in graph.external_captures]
  handles = {
    id(tensor)
    for tensor in captured
    if tensor.dtype == tf.resource and not tensorflow_internals.is_variable_handle(tensor)
  }
  # Without making a handle: other programs of the process may have objects whose graphs are gone.
  handle_of = tensorflow_internals.existing_handle
  found = [each for each in made if id(handle_of(each)) in handles]
  # A search through all objects of the process takes a tenth of a second.
  if missing := handles - {id(handle_of(each)) for each in found}:
    others = live_objects.of(tf.saved_model.experimental.TrackableResource)
    found += [each for each in others if id(handle_of(each)) in missing]
  return found


@patches.replaces(tf.saved_model.experimental.TrackableResource, "__init__")
def _init(original, resource, *args, **kwargs):
  original(resource, *args, **kwargs)
  if (made := _made.get()) is not None:
    made.append(resource)
