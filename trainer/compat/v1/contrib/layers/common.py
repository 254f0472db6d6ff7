"""What layers of contrib have in common: their variables, and what becomes of their outputs."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.v1.contrib.arg_scopes import add_arg_scope

v1 = tf.compat.v1

ZEROS = v1.zeros_initializer()


def model_variable(name: str, shape: Sequence[int], **kwargs: Any) -> tf.Variable:
  """A variable that is in MODEL_VARIABLES too."""
  collections = kwargs.pop("collections", None) or []
  variable = v1.get_variable(name, shape, **kwargs)
  for key in [*collections, v1.GraphKeys.MODEL_VARIABLES]:
    if not any(variable is one for one in v1.get_collection(key)):
      v1.add_to_collection(key, variable)
  return variable


def collections_of(given: Any, name: str) -> list[str]:
  found = given.get(name) if isinstance(given, dict) else given
  return [found] if isinstance(found, str) else list(found or [])


def finished(
  outputs: tf.Tensor,
  activation_fn: Callable | None,
  normalizer_fn: Callable | None,
  normalizer_params: dict[str, Any] | None,
  add_bias: Callable[[tf.Tensor], tf.Tensor] | None,
  collections: Any,
  alias: str,
) -> tf.Tensor:
  """Normalizes or adds the bias, activates, and collects what comes out."""
  if normalizer_fn is not None:
    outputs = normalizer_fn(outputs, **(normalizer_params or {}))
  elif add_bias is not None:
    outputs = add_bias(outputs)
  if activation_fn is not None:
    outputs = activation_fn(outputs)
  return collected(outputs, collections, alias)


def collected(outputs: tf.Tensor, collections: Any, alias: str) -> tf.Tensor:
  if collections:
    outputs.aliases = [alias]
    v1.add_to_collections(collections, outputs)
  return outputs


def scoped(name: str, function: Callable) -> Callable:
  """A layer function with this name, that arg_scope knows."""
  function.__name__ = function.__qualname__ = name
  return add_arg_scope(function)
