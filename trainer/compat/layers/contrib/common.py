"""What layers of contrib have in common: their variables, and what becomes of their outputs."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.layers.contrib.arg_scopes import add_arg_scope
from trainer.compat.layers.contrib.regularizers import xavier_initializer
from trainer.tracing import graph_collections

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


@dataclasses.dataclass(frozen=True)
class Options:
  """The arguments that dense layers and convolutions have in common, in their order.

  Attributes:
    activation_fn: of the output; None for none.
    normalizer_fn: called as normalizer_fn(outputs, **normalizer_params), in place of a bias.
    normalizer_params: its arguments.
    weights_initializer: None for Xavier's.
    weights_regularizer: function of the weights, whose value is a loss.
    biases_initializer: None for no bias.
    biases_regularizer: as weights_regularizer.
    reuse: whether the variables are there already.
    variables_collections: keys of collections, or a dict of these by "weights" and "biases".
    outputs_collections: keys of collections that get the output.
    trainable: whether the variables are.
    scope: a variable scope or its name; None for the layer's own.
  """

  activation_fn: Callable | None = tf.nn.relu
  normalizer_fn: Callable | None = None
  normalizer_params: dict[str, Any] | None = None
  weights_initializer: Any = None
  weights_regularizer: Callable | None = None
  biases_initializer: Any = ZEROS
  biases_regularizer: Callable | None = None
  reuse: bool | None = None
  variables_collections: Any = None
  outputs_collections: Any = None
  trainable: bool = True
  scope: Any = None

  @property
  def has_bias(self) -> bool:
    return self.normalizer_fn is None and self.biases_initializer is not None

  def variable_scope(
    self, default: str, inputs: Any, **settings: Any
  ) -> contextlib.AbstractContextManager[Any]:
    return v1.variable_scope(self.scope, default, [inputs], reuse=self.reuse, **settings)

  def weights(self, shape: Sequence[int], dtype: tf.DType, name: str = "weights") -> tf.Variable:
    """Makes the weights of the layer whose scope is open."""
    return model_variable(
      name,
      shape,
      dtype=dtype,
      initializer=self.weights_initializer or xavier_initializer(),
      regularizer=self.weights_regularizer,
      collections=collections_of(self.variables_collections, "weights"),
      trainable=self.trainable,
    )

  def with_bias(self, outputs: tf.Tensor, found: Any) -> tf.Tensor:
    """Makes and adds the bias of the layer whose scope is open, if it has one; see `finished`."""
    if self.has_bias:
      biases = model_variable(
        "biases",
        [int(outputs.shape[-1])],
        dtype=outputs.dtype,
        initializer=self.biases_initializer,
        regularizer=self.biases_regularizer,
        collections=collections_of(self.variables_collections, "biases"),
        trainable=self.trainable,
      )
      outputs = tf.nn.bias_add(outputs, biases)
    return self.finished(outputs, found)

  def finished(self, outputs: tf.Tensor, found: Any) -> tf.Tensor:
    """Normalizes, activates, and collects what comes out of a layer whose scope is `found`."""
    if self.normalizer_fn is not None:
      outputs = self.normalizer_fn(outputs, **(self.normalizer_params or {}))
    return activated(outputs, self.activation_fn, self.outputs_collections, found)


def activated(
  outputs: tf.Tensor, activation_fn: Callable | None, collections: Any, found: Any
) -> tf.Tensor:
  """Activates and collects what comes out of a layer whose scope is `found`."""
  if activation_fn is not None:
    outputs = activation_fn(outputs)
  return collected(outputs, collections, found.original_name_scope.rstrip("/"))


def collected(outputs: tf.Tensor, collections: Any, alias: str) -> tf.Tensor:
  if collections:
    # The last unit of a block of a ResNet is collected again, as the block. In the names of 2.15
    # there is no scope of a loop or a replica.
    alias = graph_collections.OUTER_SCOPES.sub("", alias)
    outputs.aliases = [*getattr(outputs, "aliases", ()), alias]
    v1.add_to_collections(collections, outputs)
  return outputs


def scoped(name: str, function: Callable) -> Callable:
  """A layer function with this name, that arg_scope knows."""
  function.__name__ = function.__qualname__ = name
  return add_arg_scope(function)
