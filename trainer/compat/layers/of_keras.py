"""Layers of Keras 2: DenseFeatures for feature columns, Embedding, and SyncBatchNormalization."""

import types
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

_columns = tf.__internal__.feature_column


class _Weights(_columns.StateManager):
  """Makes the weights of a layer's columns, in a scope with each column's name."""

  def __init__(self, layer: keras.layers.Layer):
    self._layer = layer
    self._weights: dict[tuple[Any, str], keras.Variable] = {}
    self._resources: dict[tuple[Any, str], Any] = {}

  def create_variable(
    self,
    feature_column: Any,
    name: str,
    shape: Sequence[int],
    dtype: Any = None,
    trainable: bool = True,
    use_resource: bool = True,
    initializer: Any = None,
  ) -> Any:
    def initialize(shape, dtype=None):
      return initializer(shape, tf.as_dtype(dtype or tf.float32))

    with keras.name_scope(feature_column.name):  # add_weight alone has no such scope
      made = keras.Variable(
        initialize if callable(initializer) else initializer or "glorot_uniform",
        shape=tuple(shape),
        dtype=tf.as_dtype(dtype or tf.float32).name,
        trainable=trainable and self._layer.trainable,
        name=name,
      )
    self._weights[feature_column, name] = made
    setattr(self._layer, f"{feature_column.name}_{name}", made)  # the layer tracks attributes
    return self.get_variable(feature_column, name)

  def get_variable(self, feature_column: Any, name: str) -> tf.Variable:
    return self._weights[feature_column, name].value

  def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
    self._resources[feature_column, name] = resource

  def has_resource(self, feature_column: Any, name: str) -> bool:
    return (feature_column, name) in self._resources

  def get_resource(self, feature_column: Any, name: str) -> Any:
    return self._resources[feature_column, name]


class DenseFeatures(keras.layers.Layer):
  """Joins dense feature columns in the order of names: [batch, all their elements].

  Args:
    feature_columns: dense columns of tf.feature_column.
    others: arguments of a layer.

  Raises:
    ValueError: a column is not dense.
  """

  def __init__(
    self, feature_columns: Any, trainable: bool = True, name: str | None = None, **others
  ):
    super().__init__(trainable=trainable, name=name, **others)
    given = feature_columns if isinstance(feature_columns, list | tuple) else [feature_columns]
    for column in given:
      if not isinstance(column, _columns.DenseColumn):
        raise ValueError(f"DenseFeatures takes dense columns; got {column}.")
    # A tuple, because Keras would search a list for layers to track.
    self._columns = tuple(sorted(given, key=lambda column: column.name))
    self._state = types.SimpleNamespace(manager=_Weights(self))

  def build(self, input_shape: Any = None) -> None:
    for column in self._columns:
      column.create_state(self._state.manager)
    self.built = True

  def call(self, features: dict[str, Any], training: bool | None = None) -> tf.Tensor:
    del training
    if not isinstance(features, dict):
      raise ValueError(f"DenseFeatures takes a dict of features; got {features!r}.")
    cache = _columns.FeatureTransformationCache(features)
    found = []
    for column in self._columns:
      tensor = column.get_dense_tensor(cache, self._state.manager)
      found.append(tf.reshape(tensor, [-1, column.variable_shape.num_elements()]))
    return tf.concat(found, -1)


class Embedding(keras.layers.Embedding):
  """An Embedding with Keras 2's input_length: a Sequential of a known length is built at once."""

  # Keras stores a class by its module and name: models load without this package.
  __module__ = "keras.layers"

  def __init__(self, *args: Any, input_length: int | None = None, **kwargs: Any):
    if input_length is not None:
      kwargs.setdefault("input_shape", (input_length,))
    super().__init__(*args, **kwargs)


class SyncBatchNormalization(keras.layers.BatchNormalization):
  """A BatchNormalization over the batches of all cores."""

  def __init__(self, *args: Any, **kwargs: Any):
    super().__init__(*args, **kwargs | {"synchronized": True})


__all__ = ["DenseFeatures", "Embedding", "SyncBatchNormalization"]
