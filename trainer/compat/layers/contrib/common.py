"""The common part of contrib's layers: their variables, and the steps after their outputs."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.layers.contrib.arg_scopes import add_arg_scope
from trainer.compat.layers.contrib.regularizers import xavier_initializer
from trainer.tracing import graph_collections

v1 = tf.compat.v1

ZEROS = v1.zeros_initializer()
NAMES = {"kernel": "weights", "bias": "biases"}


def model_variable(name: str, shape: Sequence[int], **kwargs: Any) -> tf.Variable:
  """Makes a variable that is in MODEL_VARIABLES too."""
  collections = kwargs.pop("collections", None) or []
  variable = v1.get_variable(name, shape, **kwargs)
  for key in [*collections, v1.GraphKeys.MODEL_VARIABLES]:
    collect_once(variable, key)
  return variable


def collect_once(variable: tf.Variable, key: str) -> None:
  """Adds a variable to a collection that lacks it."""
  if not any(variable is one for one in v1.get_collection(key)):
    v1.add_to_collection(key, variable)


def shift_and_scale(
  shape: Sequence[int],
  inputs: tf.Tensor,
  center: bool,
  scale: bool,
  collections: Any,
  trainable: bool,
  initializers: Mapping[str, Any] | None = None,
) -> list[tf.Variable | None]:
  """Makes a normalization's [beta, gamma] in the open scope; None for an unwanted one."""
  wanted = {"beta": (center, ZEROS), "gamma": (scale, v1.ones_initializer())}
  return [
    model_variable(
      name,
      shape,
      dtype=inputs.dtype,
      initializer=(initializers or {}).get(name, initializer),
      collections=collections_of(collections, name),
      trainable=trainable,
    )
    if is_wanted
    else None
    for name, (is_wanted, initializer) in wanted.items()
  ]


def collections_of(given: Any, name: str) -> list[str]:
  found = given.get(name) if isinstance(given, dict) else given
  return [found] if isinstance(found, str) else list(found or [])


@dataclasses.dataclass(frozen=True)
class Options:
  """The common arguments of dense layers and convolutions, in order.

  Attributes:
    activation_fn: applied to the output; None for none.
    normalizer_fn: called as normalizer_fn(outputs, **normalizer_params), instead of a bias.
    normalizer_params: its arguments.
    weights_initializer: None for Xavier's initializer.
    weights_regularizer: function from the weights to a loss.
    biases_initializer: None for a layer without a bias.
    biases_regularizer: as weights_regularizer.
    reuse: whether to reuse existing variables.
    variables_collections: keys of collections, or a dict of such keys with "weights" and "biases".
    outputs_collections: keys of the collections that receive the output.
    trainable: whether the variables are trainable.
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

  def of_tf_layers(
    self,
    cls: type,
    default_scope: str,
    inputs: Any,
    kernel: str = "kernel",
    names: Mapping[str, str] = NAMES,
    **settings: Any,
  ) -> tf.Tensor:
    """Calls a layer of tf.layers whose variables have names of contrib; see `finished`.

    Args:
      kernel: the kernel's name in the layer's arguments.
      names: a variable's name in tf.layers → in contrib.
      settings: the layer's other arguments.
    """
    getter = functools.partial(_renamed, names)
    with self.variable_scope(default_scope, inputs, custom_getter=getter) as found:
      given = {
        "use_bias": self.has_bias,
        "bias_initializer": self.biases_initializer,
        "bias_regularizer": self.biases_regularizer,
        f"{kernel}_initializer": self.weights_initializer or xavier_initializer(),
        f"{kernel}_regularizer": self.weights_regularizer,
      }
      layer = cls(trainable=self.trainable, _scope=found, _reuse=self.reuse, **given, **settings)
      outputs = layer(inputs)
      for attribute, name in names.items():
        key = "biases" if name == "biases" else "weights"
        for collection in collections_of(self.variables_collections, key):
          if (weight := getattr(layer, attribute)) is not None:
            collect_once(weight, collection)
      return self.finished(outputs, found)

  def finished(self, outputs: tf.Tensor, found: Any) -> tf.Tensor:
    """Normalizes, activates and collects a layer's output; `found` is the layer's scope."""
    if self.normalizer_fn is not None:
      outputs = self.normalizer_fn(outputs, **(self.normalizer_params or {}))
    return activated(outputs, self.activation_fn, self.outputs_collections, found)


def _renamed(
  names: Mapping[str, str], getter: Callable, name: str, *args: Any, **kwargs: Any
) -> Any:
  """Gets a layer's variable under its name in contrib."""
  scope, slash, last = name.rpartition("/")
  # A custom_getter around this one may return a tensor: the collection has the variable.
  asked_for = kwargs.pop("collections", None) or [v1.GraphKeys.GLOBAL_VARIABLES]
  kwargs["collections"] = [*asked_for, v1.GraphKeys.MODEL_VARIABLES]
  return getter(f"{scope}{slash}{names.get(last, last)}", *args, **kwargs)


def activated(
  outputs: tf.Tensor, activation_fn: Callable | None, collections: Any, found: Any
) -> tf.Tensor:
  """Activates and collects a layer's output; `found` is the layer's scope."""
  if activation_fn is not None:
    outputs = activation_fn(outputs)
  return collected(outputs, collections, found.original_name_scope.rstrip("/"))


def collected(outputs: tf.Tensor, collections: Any, alias: str) -> tf.Tensor:
  if collections:
    # A ResNet also collects its block's last unit as the block itself. Names of 2.15 have no scope
    # of a loop or a replica.
    alias = graph_collections.OUTER_SCOPES.sub("", alias)
    outputs.aliases = [*getattr(outputs, "aliases", ()), alias]
    v1.add_to_collections(collections, outputs)
  return outputs


def scoped(name: str, function: Callable) -> Callable:
  """Returns a layer function with this name, registered with arg_scope."""
  function.__name__ = function.__qualname__ = name
  return add_arg_scope(function)
