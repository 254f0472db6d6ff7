"""Utilities of tf.contrib.layers and slim: collections that name the layers' outputs."""

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers.contrib import common

v1 = tf.compat.v1


def collect_named_outputs(collections: Any, alias: str, outputs: tf.Tensor) -> tf.Tensor:
  """Adds a tensor to collections, with the name that `convert_collection_to_dict` returns."""
  return common.collected(outputs, collections, alias)


def get_variable_collections(variables_collections: Any, name: str) -> Any:
  """Returns the collections of a variable, from a list for all variables or a dict by name."""
  if isinstance(variables_collections, dict):
    return variables_collections.get(name)
  return variables_collections


def get_tensor_aliases(tensor: tf.Tensor) -> list[str]:
  """Returns a tensor's names in a collection: the names from its layer, or its own name."""
  return list(getattr(tensor, "aliases", ())) or [tensor.name.removesuffix(":0")]


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Any]:
  """Returns a collection's tensors by name, in the order of their addition."""
  tensors = v1.get_collection(collection)
  if clear_collection:
    v1.get_collection_ref(collection).clear()
  return collections.OrderedDict(
    (alias, tensor) for tensor in tensors for alias in get_tensor_aliases(tensor)
  )


def last_dimension(shape: Any, min_rank: int = 1) -> int | None:
  """Returns the size of the last axis of a tensor or shape; ValueError if its rank is too small."""
  return _size(shape, -1, min_rank)


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> int | None:
  """Returns the size of the channel axis: the last of NHWC, the second of NCHW."""
  return _size(shape, 1 if data_format.startswith("NC") else -1, min_rank)


def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
  """Returns the value if the graph's construction knows it; else None."""
  del dtype
  if not tf.is_tensor(value_or_tensor_or_var):
    return value_or_tensor_or_var
  return tf.get_static_value(value_or_tensor_or_var)


def smart_cond(
  pred: Any, fn1: Callable[[], Any], fn2: Callable[[], Any], name: str | None = None
) -> Any:
  """Returns fn1() or fn2(); calls only one if the graph's construction knows pred."""
  known = constant_value(pred)
  if known is None:
    return tf.compat.v1.cond(pred, fn1, fn2, name=name)
  return fn1() if known else fn2()


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
  """Returns a number twice, or the two entries of a list, tuple or shape; else ValueError."""
  if isinstance(int_or_tuple, int):
    return int_or_tuple, int_or_tuple
  found = tuple(tf.TensorShape(int_or_tuple).as_list())
  if len(found) != 2:
    raise ValueError(f"Must be a number or a pair of them; got {int_or_tuple!r}.")
  return found


def _size(shape: Any, axis: int, min_rank: int) -> int | None:
  shape = tf.TensorShape(getattr(shape, "shape", shape))
  if shape.rank is None or shape.rank < min_rank:
    raise ValueError(f"rank of shape must be at least {min_rank}; got the shape {shape}.")
  return shape.as_list()[axis]
