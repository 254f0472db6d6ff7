"""`keras.Input(tensor=...)` of Keras 2, around a tensor of the model_fn.

    x = tf.keras.Input(tensor=features["x"])
    logits = tf.keras.layers.Dense(10)(x)
    model = tf.keras.Model(x, logits)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, model.output)

In a graph of Keras 2, the outputs of such layers were tensors of TensorFlow with the history of a
Functional model. A layer of Keras 3 takes either kind of tensor. Here it computes with the tensors
of TensorFlow, and its output carries both: functions of TensorFlow take the value, and Keras the
history.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.graph_mode import habits
from trainer.internals import keras_internals, patches


class ValuedTensor(keras.KerasTensor):
  """A KerasTensor with a value: a tensor of the model_fn's graph."""

  def __init__(self, value: tf.Tensor):
    super().__init__(value.shape.as_list(), value.dtype.name)
    self.value = value

  def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> tf.Tensor:
    return tf.convert_to_tensor(self.value, dtype, name=name)

  def __getattr__(self, name: str) -> Any:
    """Returns an attribute that only tensors of TensorFlow have, such as `get_shape` and `op`."""
    if name.startswith("_"):
      raise AttributeError(name)
    return getattr(self.value, name)


# Attribute of a tensor: the ValuedTensor of the newest InputLayer around it.
_VALUED = "_octet_valued_tensor"


@patches.replaces(keras.layers.InputLayer, "__init__")
def _init(original, self, *args, input_tensor=None, **kwargs):
  if habits.are_enabled() and isinstance(input_tensor, tf.Tensor):
    valued = ValuedTensor(input_tensor)
    setattr(input_tensor, _VALUED, valued)
    return original(self, input_tensor=valued, name=kwargs.get("name"))
  return original(self, *args, input_tensor=input_tensor, **kwargs)


@patches.replaces(*keras_internals.SOURCE_INPUTS)
def _source_inputs(original, tensor):
  return original(getattr(tensor, _VALUED, tensor))


def call(inner: Callable, layer: keras.layers.Layer, *args: Any, **kwargs: Any) -> Any:
  """Calls a layer with the tensors behind its inputs, if they have any; see layer_calls."""
  if not _have_values(args, kwargs):
    return inner(layer, *args, **kwargs)
  return _computed(inner, layer, args, kwargs)


@patches.replaces(keras.Operation, "symbolic_call")
def _call_operation(original, self, *args, **kwargs):
  if not _have_values(args, kwargs):
    return original(self, *args, **kwargs)
  return _computed(type(self).__call__, self, args, kwargs)


def _have_values(args: tuple, kwargs: dict[str, Any]) -> bool:
  if not habits.are_enabled():
    return False
  leaves = tf.nest.flatten((args, kwargs))
  symbolic = [leaf for leaf in leaves if isinstance(leaf, keras.KerasTensor)]
  return bool(symbolic) and all(isinstance(leaf, ValuedTensor) for leaf in symbolic)


def _computed(call: Any, operation: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
  """Calls a layer or an operation with the values of its arguments, and records the call."""
  values, named = tf.nest.map_structure(
    lambda leaf: leaf.value if isinstance(leaf, ValuedTensor) else leaf, (args, kwargs)
  )
  outputs = tf.nest.map_structure(ValuedTensor, call(operation, *values, **named))
  keras_internals.Node(operation, call_args=args, call_kwargs=kwargs, outputs=outputs)
  return outputs
