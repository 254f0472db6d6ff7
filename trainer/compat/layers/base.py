"""The layer of tf.layers: makes variables with get_variable, in scopes with TensorFlow 1's names.

Old checkpoints depend on the names: `dense/kernel`, `dense_1/kernel`, `<scope>/conv2d/bias`.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.compat.graph_mode import keras_names
from trainer.internals.tensorflow_internals import RNN_CELLS

v1 = tf.compat.v1

# Returns an initializer for an initializer, its name, or None.
initializer = RNN_CELLS.initializers.get


# Layer of Keras → the layer here that replaces it in a class with both as bases.
_STANDS_FOR: dict[type, type] = {}


def stands_for(of_keras: type, layer: type) -> None:
  """Registers the layer that replaces a layer of Keras in classes that derive from both."""
  _STANDS_FOR[of_keras] = layer


class Mixing(type):
  """Makes classes that derive from a layer of Keras and from Layer.

  In Keras 2, tf.layers.Layer was itself a Keras layer. A class with the bases
  (tf.keras.layers.DepthwiseConv2D, tf.layers.Layer) had the variables of the first in the scopes of
  the second.
  """

  def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    if any(issubclass(base, keras.layers.Layer) for base in bases):
      importlib.import_module("trainer.compat.layers.legacy")  # registers the replacements
    found = tuple(_STANDS_FOR.get(base, base) for base in bases)
    if found != bases and Layer in found:  # the replacements derive from Layer
      found = tuple(base for base in found if base is not Layer)
    left = [base.__name__ for base in found if issubclass(base, keras.layers.Layer)]
    if left and any(isinstance(base, Mixing) for base in found):
      raise errors.SettingError(
        f"class {name} derives from keras.layers.{left[0]} and from tf.layers.Layer, which "
        "Keras 3 cannot combine: remove one of the two bases."
      )
    return super().__new__(mcs, name, found, namespace)

  def __instancecheck__(cls, instance: Any) -> bool:
    # The recurrent cells derive from TensorFlow's own class Layer.
    is_cell = cls is Layer and isinstance(instance, RNN_CELLS.RNNCell)
    return is_cell or super().__instancecheck__(instance)


class InputSpec(keras.InputSpec, RNN_CELLS.input_spec.InputSpec):
  """The rank, shape and dtype of a layer's inputs; both Keras 3 and TensorFlow's cells take it."""


class Layer(RNN_CELLS.base_layer.Layer, metaclass=Mixing):
  """A layer. A subclass defines `build(input_shape)`, which makes variables, and `call(inputs)`.

  TensorFlow's wheel has the class without the names of 2.15, and its call is that of a second
  Keras. So the variables, the scopes, the losses and the call are here.

  Args:
    trainable: whether its variables are trainable.
    name: the scope's name, made unique; default: from the class's name.
    dtype: the variables' dtype; default: the first input's dtype.
    others: activity_regularizer, a function from the output to a loss; _reuse and _scope, whether
      to reuse existing variables, and their exact scope: the functions of tf.layers set them.
  """

  def __new__(cls, *args: Any, **kwargs: Any) -> Any:
    # TensorFlow's own __new__ changes the bases of the class, under the other replicas' threads.
    return object.__new__(cls)

  def __init__(
    self, trainable: bool = True, name: str | None = None, dtype: Any = None, **others: Any
  ):
    # 2.15 counts unnamed layers of tf.layers and Keras together: `dense`, `dense_1`.
    if name is None and others.get("_scope") is None:
      keras_names.count(type(self).__name__)
    super().__init__(trainable=trainable, name=name, dtype=dtype, **others)

  def _init_set_name(self, name: str | None) -> None:
    self._name = self._base_name = name or snake_case(type(self).__name__)

  @property
  def name(self) -> str:
    scope = getattr(self, "_scope", None)
    return self._base_name if scope is None else scope.name.rpartition("/")[2]

  @property
  def updates(self) -> list[Any]:
    return self._updates

  @property
  def losses(self) -> list[tf.Tensor]:
    return self._losses

  def add_weight(
    self,
    name: str,
    shape: Sequence[int],
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Callable | None = None,
    trainable: bool | None = None,
    constraint: Callable | None = None,
    use_resource: bool | None = None,
    synchronization: Any = tf.VariableSynchronization.AUTO,
    aggregation: Any = tf.VariableAggregation.NONE,
    partitioner: Any = None,
    **unknown: Any,
  ) -> tf.Variable:
    """Makes a variable in the layer's scope; see get_variable."""
    del use_resource, partitioner, unknown  # the scope decides: a test's scope has none
    is_trainable = self.trainable and trainable is not False
    known = v1.global_variables() if regularizer is not None else []
    variable = v1.get_variable(
      name,
      shape=[int(size) for size in shape],
      dtype=dtype or self.dtype or tf.float32,
      initializer=initializer,
      trainable=is_trainable,
      constraint=constraint,
      synchronization=synchronization,
      aggregation=aggregation,
    )
    # Not variable.trainable: a custom_getter may return a tensor.
    (self._trainable_weights if is_trainable else self._non_trainable_weights).append(variable)
    # As TensorFlow: after get_variable, which has the scope's own regularizer, and for what a
    # custom_getter returns. If this is no variable, each call counts, also one that reuses.
    if regularizer is not None and not any(variable is one for one in known):
      with v1.name_scope(f"{name}/Regularizer"):
        loss = regularizer(variable)
      if loss is not None:
        self.add_loss(loss)
    return variable

  add_variable = add_weight

  def add_update(self, updates: Any, inputs: Any = None) -> None:
    """Adds operations to UPDATE_OPS."""
    del inputs
    for update in tf.nest.flatten(updates):
      self._updates.append(update)
      v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)

  def add_loss(self, losses: Any, inputs: Any = None) -> None:
    """Adds losses to REGULARIZATION_LOSSES."""
    del inputs
    for loss in tf.nest.flatten(losses):
      self._losses.append(loss)
      v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, loss)

  def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(self, RNN_CELLS.RNNCell):  # a program's LayerRNNCell calls it on itself
      return RNN_CELLS.base_layer.Layer.__call__(self, inputs, *args, **kwargs)
    scope = kwargs.pop("scope", None)
    inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
    self._enter_scope(scope)
    if self.dtype is None:
      self._dtype = tf.nest.flatten(inputs)[0].dtype
    # A second call finds the variables of the first; None inherits from the scope around.
    reuse = True if self.built or self._reuse else v1.get_variable_scope().reuse or None
    # Re-entering a variable scope would open a new name scope, `dense_1`, for the operations.
    with v1.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False):
      with v1.name_scope(self._scope.original_name_scope):
        if not self.built:
          self.build(tf.nest.map_structure(lambda tensor: tensor.shape, inputs))
          self.built = True
        outputs = self.call(inputs, *args, **kwargs)
        self._regularize(outputs)
        return outputs

  apply = __call__

  def _enter_scope(self, scope: Any) -> None:
    if self._scope is not None:
      return
    # default_name makes the name unique, `dense_1`; reuse needs the exact name.
    opened = (
      v1.variable_scope(scope or self._base_name, reuse=True)
      if self._reuse
      else v1.variable_scope(scope, default_name=self._base_name)
    )
    with opened as self._scope:
      pass

  def _regularize(self, outputs: Any) -> None:
    if self._activity_regularizer is not None:
      for output in tf.nest.flatten(outputs):
        # Keras divides by the batch, so that the loss does not grow with it.
        batch = tf.cast(tf.shape(output)[0], output.dtype)
        self.add_loss(self._activity_regularizer(output) / batch)


def function(cls: type[Layer], *of_call: str) -> Callable[..., Any]:
  """Returns a layer's function, which makes the layer in the scope of its name and calls it.

  Args:
    of_call: the arguments of the call.
  """

  def layer(
    inputs: Any, *args: Any, name: str | None = None, reuse: bool | None = None, **kwargs: Any
  ) -> Any:
    called = {key: kwargs.pop(key) for key in of_call if key in kwargs}
    return cls(*args, name=name, _reuse=reuse, _scope=name, **kwargs)(inputs, **called)

  layer.__module__, layer.__doc__ = cls.__module__, f"{cls.__doc__} See {cls.__name__}."
  layer.__name__ = layer.__qualname__ = snake_case(cls.__name__)
  return layer


def snake_case(name: str) -> str:
  """Returns `conv2d_transpose` for Conv2DTranspose, as TensorFlow derives scopes from classes."""
  words = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
  return re.sub("([a-z])([A-Z])", r"\1_\2", words).lower()


def of_weight(given: Any, regularizer: Any, constraint: Any) -> dict[str, Any]:
  """Returns `add_weight`'s arguments for a variable with an initializer, an object or a name."""
  return dict(initializer=initializer(given), regularizer=regularizer, constraint=constraint)


def static_bool(value: Any) -> bool | tf.Tensor:
  """Returns `training` as a Python value if it is one or a constant."""
  if tf.is_tensor(value) or isinstance(value, tf.Variable):
    known = tf.get_static_value(tf.convert_to_tensor(value))
    return value if known is None else bool(known)
  return bool(value)
