"""The common part of Keras 2's optimizers: variables, and the methods for programs."""

import contextlib
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.graph_mode.differentiation import tensorflow_variable
from trainer.optimization import combined_gradients

v1 = tf.compat.v1

_ALIKE = tf.VariableAggregation.ONLY_FIRST_REPLICA  # every replica makes the same changes


class Variables:
  """The first base of an optimizer of TensorFlow's wheel: makes its variables as Octet needs them.

  The replicas share them, and they lie outside of the traced graph.
  """

  _name: str

  def _distribution_strategy_scope(self) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()

  def add_weight(
    self, name: str, shape: Any, dtype: Any = None, initializer: Any = "zeros", **others: Any
  ) -> tf.Variable:
    """Makes the counter, or a setting that is a number."""
    del shape, others
    value = 0 if isinstance(initializer, str) else initializer
    return self._variable(name, value, dtype or tf.float32)

  def add_slot(self, var: tf.Variable, slot_name: str, initializer: Any = "zeros") -> tf.Variable:
    slots = self._slots_of()
    if (id(var), slot_name) not in slots:
      make = v1.zeros_initializer() if initializer == "zeros" else initializer
      dtype = var.dtype.base_dtype
      path = f"{var.name.partition(':')[0]}/{slot_name}"
      slot = self._variable(path, lambda: make(var.shape, dtype=dtype), dtype)
      slots[id(var), slot_name] = var, slot
    return slots[id(var), slot_name][1]

  def get_slot(self, var: tf.Variable, slot_name: str) -> tf.Variable | None:
    return self._slots_of().get((id(var), slot_name), (None, None))[1]

  def _slots_of(self) -> dict[tuple[int, str], tuple[Any, Any]]:
    """Returns (id of a variable, slot's name) → (the variable, its slot)."""
    return self.__dict__.setdefault("_octet_slots", {})

  def _variable(self, name: str, value: Any, dtype: tf.DType) -> tf.Variable:
    with tf.init_scope(), tf.name_scope(self._name):
      return tf.Variable(value, trainable=False, name=name, dtype=dtype, aggregation=_ALIKE)


class Optimizer(v1.train.Optimizer):
  """The common part of the optimizers: an optimizer of TensorFlow 1 with the steps of Keras 2.

  Keras 2's own apply_gradients would combine the gradients of all replicas, and count the steps.

  Args:
    args, kwargs: the arguments of Keras 2's optimizer; learning_rate may be a LearningRateSchedule
      of Keras 3.
  """

  of_wheel: type  # with Variables as its first base

  def __init__(self, *args: Any, **kwargs: Any):
    self._wheels: Any = self.of_wheel(*args, **kwargs)
    super().__init__(use_locking=False, name=self._wheels._name)
    self._counted: Any = None
    # Type of a variable → the numbers of a step.
    self._numbers_of: dict[tf.DType, dict[str, tf.Tensor]] = {}
    self.learning_rate = self._wheels._hyper["learning_rate"]

  def __getattr__(self, name: str) -> Any:
    """Returns a setting, such as `beta_1` or `clipnorm`."""
    if name.startswith("_"):
      raise AttributeError(name)
    return getattr(self._wheels, name)

  # ------------------------------------------------------------------ settings

  @property
  def iterations(self) -> Any:
    """Returns the variable that counts the steps: the program's, or its own."""
    return self._wheels.iterations if self._counted is None else self._counted

  @iterations.setter
  def iterations(self, variable: Any) -> None:
    self._counted = self._wheels._iterations = variable

  @property
  def learning_rate(self) -> Any:
    return self._wheels.learning_rate

  @learning_rate.setter
  def learning_rate(self, value: Any) -> None:
    given = value
    if isinstance(given, keras.optimizers.schedules.LearningRateSchedule):
      value = lambda: given(self.iterations)
    self._wheels._hyper["learning_rate"] = value

  lr = learning_rate

  # ------------------------------------------------------------------ methods for programs

  def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
    """Returns the gradients of a loss by variables, without clipping: applying them clips."""
    pairs = self.compute_gradients(loss, [tensorflow_variable(one) for one in params])
    return [gradient for gradient, _ in pairs]

  def get_updates(self, loss: Any, params: Sequence[Any]) -> list[Any]:
    """Returns [the train_op] of a loss."""
    return [self.minimize(loss, params)]

  def minimize(
    self,
    loss: Any,
    var_list: Any,
    grad_loss: Any = None,
    name: str | None = None,
    tape: tf.GradientTape | None = None,
  ) -> Any:
    """Returns the train_op of a loss, a tensor or a function that returns one."""
    if combined_gradients.is_idle():
      return tf.no_op()
    loss = loss() if callable(loss) else loss
    given = var_list() if callable(var_list) else var_list
    params = [tensorflow_variable(one) for one in tf.nest.flatten(given)]
    if tape is None:
      pairs = self.compute_gradients(loss, params, grad_loss=grad_loss)
    else:
      pairs = list(zip(tape.gradient(loss, params, grad_loss), params, strict=True))
    return self.apply_gradients(pairs, name)

  def apply_gradients(
    self,
    grads_and_vars: Any,
    name: str | None = None,
    experimental_aggregate_gradients: bool = True,
    global_step: Any = None,
  ) -> Any:
    """Returns the train_op of [(gradient, variable)]."""
    # Octet has combined the cores' gradients already, and the training loop counts the steps.
    del experimental_aggregate_gradients, global_step
    pairs = [(grad, tensorflow_variable(one)) for grad, one in grads_and_vars if grad is not None]
    if not pairs:
      raise ValueError(f"No gradients provided for any variable: {grads_and_vars}.")
    return super().apply_gradients(self._wheels._transform_gradients(pairs), None, name)

  # ------------------------------------------------------------------ methods for
  # v1.train.Optimizer

  def _create_slots(self, var_list: Sequence[tf.Variable]) -> None:
    self._wheels._create_all_weights(var_list)

  def get_slot(self, var: tf.Variable, name: str) -> tf.Variable | None:
    return self._wheels.get_slot(var, name)

  def get_slot_names(self) -> list[str]:
    return sorted({name for _, name in self._wheels._slots_of()})

  def _prepare(self) -> None:
    self._numbers_of = {}

  def numbers(self, var: tf.Variable) -> dict[str, tf.Tensor]:
    """Returns this step's numbers for variables of a type, by their names in TensorFlow's wheel."""
    dtype = var.dtype.base_dtype
    if dtype not in self._numbers_of:
      self._numbers_of[dtype] = self._wheels._fallback_apply_state(var.device, dtype)
    return self._numbers_of[dtype]

  def _state(self, var: tf.Variable) -> dict[tuple[str, tf.DType], Any]:
    return {(var.device, var.dtype.base_dtype): self.numbers(var)}

  def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
    if self._counted is not None:  # the training loop counts the global step
      return tf.group(*update_ops, name=name_scope)
    with tf.control_dependencies(update_ops):
      return tf.group(assign_add(self.iterations, 1), name=name_scope)

  def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
    return self._wheels._resource_apply_dense(grad, var, self._state(var))

  def _resource_apply_sparse_duplicate_indices(
    self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
  ) -> Any:
    return self._wheels._resource_apply_sparse_duplicate_indices(
      grad, handle, indices, apply_state=self._state(handle)
    )


# Assign by the handle of this core's own copy: `assign` of a variable on several cores would wait
# for the other cores.
def assign(var: tf.Variable, value: tf.Tensor) -> tf.Operation:
  return tf.raw_ops.AssignVariableOp(resource=var.handle, value=value)


def assign_add(var: tf.Variable, value: Any) -> tf.Operation:
  value = tf.cast(value, var.dtype.base_dtype)
  return tf.raw_ops.AssignAddVariableOp(resource=var.handle, value=value)
