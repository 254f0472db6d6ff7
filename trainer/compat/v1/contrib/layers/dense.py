"""Dense layers, and biases."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.v1.contrib.arg_scopes import add_arg_scope
from trainer.compat.v1.contrib.layers.common import (
  ZEROS,
  collected,
  collections_of,
  finished,
  model_variable,
)
from trainer.compat.v1.contrib.regularizers import xavier_initializer

v1 = tf.compat.v1


@add_arg_scope
def fully_connected(
  inputs: tf.Tensor,
  num_outputs: int,
  activation_fn: Callable | None = tf.nn.relu,
  normalizer_fn: Callable | None = None,
  normalizer_params: dict[str, Any] | None = None,
  weights_initializer: Any = None,
  weights_regularizer: Callable | None = None,
  biases_initializer: Any = ZEROS,
  biases_regularizer: Callable | None = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
) -> tf.Tensor:
  """`activation_fn(inputs · weights + biases)` over the last axis."""
  with v1.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as found:
    inputs = tf.convert_to_tensor(inputs)
    variable = functools.partial(model_variable, dtype=inputs.dtype, trainable=trainable)
    weights = variable(
      "weights",
      [int(inputs.shape[-1]), int(num_outputs)],
      initializer=weights_initializer or xavier_initializer(),
      regularizer=weights_regularizer,
      collections=collections_of(variables_collections, "weights"),
    )
    biases = None
    if normalizer_fn is None and biases_initializer is not None:
      biases = variable(
        "biases",
        [int(num_outputs)],
        initializer=biases_initializer,
        regularizer=biases_regularizer,
        collections=collections_of(variables_collections, "biases"),
      )
    outputs = tf.tensordot(inputs, weights, [[inputs.shape.rank - 1], [0]])
    add_bias = None if biases is None else lambda tensor: tf.nn.bias_add(tensor, biases)
    return finished(
      outputs,
      activation_fn,
      normalizer_fn,
      normalizer_params,
      add_bias,
      outputs_collections,
      found.original_name_scope.rstrip("/"),
    )


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)


@add_arg_scope
def bias_add(
  inputs: tf.Tensor,
  activation_fn: Callable | None = None,
  initializer: Any = ZEROS,
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
    outputs = tf.nn.bias_add(inputs, biases)
    if activation_fn is not None:
      outputs = activation_fn(outputs)
    return collected(outputs, outputs_collections, found.original_name_scope.rstrip("/"))
