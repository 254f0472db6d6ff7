"""tf.keras.optimizers of TensorFlow 2: Keras 3's optimizers, which can also train an Estimator.

In a model_fn, `get_updates` and `minimize` come from `tf.keras.optimizers.legacy`, as in 2.15's
Estimators; `apply_gradients` is Keras 3's own.
"""

import inspect
from typing import Any

import keras

from trainer.compat import optimizers as legacy_optimizers
from trainer.compat.graph_mode import habits
from trainer.tracing import fetched_operations


class _ForEstimators:
  """The methods of a Keras 2 optimizer that a Keras 3 optimizer lacks."""

  # Keras stores a class by its module and name. This name makes it Keras's own class, which other
  # programs have too.
  __module__ = "keras.optimizers"
  argument_names: list[str]

  def __init__(self, *args: Any, **kwargs: Any):
    given = dict(zip(self.argument_names, args, strict=False)) | kwargs
    if "lr" in given:  # the name in Keras before 2.3
      given["learning_rate"] = given.pop("lr")
    if decay := given.pop("decay", None):
      default = inspect.signature(super().__init__).parameters["learning_rate"].default
      given["learning_rate"] = keras.optimizers.schedules.InverseTimeDecay(
        given.get("learning_rate", default), decay_steps=1, decay_rate=decay
      )
    object.__setattr__(self, "given", given)
    object.__setattr__(self, "_counted", None)
    # In a model_fn, make Keras's variables only on demand: get_updates trains with other variables.
    object.__setattr__(self, "_is_made", False)
    if not habits.are_enabled():
      self._make()

  def _make(self) -> None:
    object.__setattr__(self, "_is_made", True)
    super().__init__(**self.given)

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__") or self.__dict__.get("_is_made", True):
      raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
    self._make()
    return getattr(self, name)

  def __setattr__(self, name: str, value: Any) -> None:
    if name == "iterations":
      object.__setattr__(self, "_counted", value)
    else:
      super().__setattr__(name, value)

  def _legacy(self) -> legacy_optimizers.Optimizer:
    made = legacy_optimizers.like(self)
    if self._counted is not None:
      made.iterations = self._counted
    return made

  def get_updates(self, loss: Any, params: Any) -> list[Any]:
    """Returns [the train_op] of a loss, in a model_fn."""
    return self._legacy().get_updates(loss, params)

  def minimize(self, loss: Any, var_list: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the train_op of a loss, in a model_fn."""
    return self._legacy().minimize(loss, var_list, *args, **kwargs)

  def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
    """As Keras's method; in a model_fn, returns the train_op."""
    with fetched_operations.changes_made() as found:
      made = super().apply_gradients(grads_and_vars, *args, **kwargs)
    return fetched_operations.group(found) if habits.are_enabled() else made


def _class(name: str) -> type:
  of_keras = getattr(keras.optimizers, name)
  own = {
    "__doc__": of_keras.__doc__,
    "__module__": _ForEstimators.__module__,
    "argument_names": legacy_optimizers.arguments(name),
  }
  return type(name, (_ForEstimators, of_keras), own)


_CLASSES = {name: _class(name) for name in legacy_optimizers.KINDS}
globals().update(_CLASSES)


def get(identifier: Any) -> Any:
  """Returns an optimizer for its name, its configuration, or itself; see keras.optimizers.get."""
  if isinstance(identifier, str):
    identifier = {"class_name": identifier, "config": {}}
  if isinstance(identifier, dict):
    name = str(identifier.get("class_name"))
    kind = next((one for key, one in _CLASSES.items() if key.lower() == name.lower()), None)
    if kind is not None:
      return kind.from_config(identifier["config"])
  return keras.optimizers.get(identifier)


deserialize = get

__all__ = ["deserialize", "get", *_CLASSES]
