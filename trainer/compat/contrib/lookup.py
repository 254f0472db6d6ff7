"""tf.contrib.lookup: tables between strings and indices, TensorFlow's own without a public name."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.internals.tensorflow_internals import LOOKUP_TABLES


class HashTable(LOOKUP_TABLES.HashTable):
  """The older name of tf.lookup.StaticHashTable."""

  def __init__(
    self,
    initializer: Any,
    default_value: Any,
    shared_name: str | None = None,
    name: str | None = None,
  ):
    del shared_name
    super().__init__(initializer, default_value, name)


def _with_init(function: Callable[..., Any]) -> Callable[..., Any]:
  """Gives a function's tables the older name of `initializer`, which programs run: `init`."""

  @functools.wraps(function)
  def make(*args: Any, **kwargs: Any) -> Any:
    table = function(*args, **kwargs)
    if not hasattr(type(table), "init"):
      table.init = table.initializer
    return table

  make.__module__ = __name__
  return make


index_table_from_file = _with_init(LOOKUP_TABLES.index_table_from_file)
index_to_string_table_from_file = _with_init(LOOKUP_TABLES.index_to_string_table_from_file)


@_with_init
def index_table_from_tensor(
  mapping: Any,
  num_oov_buckets: int = 0,
  default_value: int = -1,
  hasher_spec: Any = LOOKUP_TABLES.FastHashSpec,
  dtype: Any = tf.string,
  name: str | None = None,
) -> Any:
  """Returns a table from a vector's entries to their positions; see index_table_from_file."""
  if mapping is None:
    raise ValueError("mapping must be specified.")
  return LOOKUP_TABLES.index_table_from_tensor(
    mapping, num_oov_buckets, default_value, hasher_spec, tf.as_dtype(dtype), name
  )
