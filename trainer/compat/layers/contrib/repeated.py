"""Several layers in one call."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def repeat(
  inputs: tf.Tensor, repetitions: int, layer: Callable, *args: Any, **kwargs: Any
) -> tf.Tensor:
  """Applies the same layer several times, in the scopes `<name>_1`, `<name>_2`, ..."""
  scope = kwargs.pop("scope", None)
  with v1.variable_scope(scope, "Repeat", [inputs]):
    name = scope or getattr(layer, "__name__", "repeat")
    for index in range(repetitions):
      inputs = layer(inputs, *args, scope=f"{name}_{index + 1}", **kwargs)
    return inputs


def stack(
  inputs: tf.Tensor, layer: Callable, stack_args: Sequence[Any], **kwargs: Any
) -> tf.Tensor:
  """Applies a layer with each argument in turn, in the scopes `<name>_1`, `<name>_2`, ..."""
  scope = kwargs.pop("scope", None)
  with v1.variable_scope(scope, "Stack", [inputs]):
    name = scope or getattr(layer, "__name__", "stack")
    for index, given in enumerate(stack_args):
      given = given if isinstance(given, list | tuple) else [given]
      inputs = layer(inputs, *given, scope=f"{name}_{index + 1}", **kwargs)
    return inputs
