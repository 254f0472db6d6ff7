"""Dense layers, and biases."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers import legacy
from trainer.compat.layers.contrib import common
from trainer.compat.layers.contrib.arg_scopes import add_arg_scope
from trainer.compat.layers.contrib.common import Options, activated, collections_of, model_variable

v1 = tf.compat.v1


@add_arg_scope
def fully_connected(inputs: tf.Tensor, num_outputs: int, *options: Any, **named: Any) -> tf.Tensor:
  """Returns `activation_fn(inputs · weights + biases)` over the last axis.

  Args:
    options, named: see common.Options.
  """
  given = Options(*options, **named)
  return given.of_tf_layers(legacy.Dense, "fully_connected", inputs, units=num_outputs)


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)


@add_arg_scope
def bias_add(
  inputs: tf.Tensor,
  activation_fn: Callable | None = None,
  initializer: Any = common.ZEROS,
  regularizer: Callable | None = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
) -> tf.Tensor:
  """Adds a bias over the last axis."""
  with v1.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as found:
    biases = model_variable(
      "biases",
      [int(inputs.shape[-1])],
      dtype=inputs.dtype,
      initializer=initializer,
      regularizer=regularizer,
      trainable=trainable,
      collections=collections_of(variables_collections, "biases"),
    )
    return activated(tf.nn.bias_add(inputs, biases), activation_fn, outputs_collections, found)
