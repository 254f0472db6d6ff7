"""The common part of Keras 2's optimizers: settings, slots, and the methods for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.graph_mode.differentiation import tensorflow_variable
from trainer.optimization import combined_gradients

v1 = tf.compat.v1

_ALIKE = tf.VariableAggregation.ONLY_FIRST_REPLICA  # every replica makes the same changes


class Optimizer(v1.train.Optimizer):
  """The common part of the optimizers.

  Args:
    name: the prefix of its variables' names.
    settings: dict of name → number, tensor, or function that returns a number or tensor;
      "learning_rate" may be a LearningRateSchedule.
    slots: dict of name → initial value.
    clipnorm, clipvalue, global_clipnorm: the limits of gradients; None for no limit.
    decay: the divisor of the learning rate is 1 + decay * iterations.
    lr: the older name of learning_rate.

  A class describes its kernels, the operations of tf.raw_ops that update a variable:

  Args:
    kernel: the end of their names.
    slots: argument of a kernel → the slot that owns the handle.
    numbers: argument of a kernel → the setting or attribute.
  """

  kernel: str
  _slot_arguments: Mapping[str, str]
  _number_arguments: Mapping[str, str]

  def __init_subclass__(
    cls,
    kernel: str = "",
    slots: Mapping[str, str] | None = None,
    numbers: Mapping[str, str] | None = None,
  ):
    if slots is not None:  # skip a program's subclass
      cls.kernel, cls._slot_arguments, cls._number_arguments = kernel, slots, numbers or {}

  def __init__(
    self,
    name: str,
    settings: dict[str, Any],
    slots: dict[str, float],
    clipnorm: float | None = None,
    clipvalue: float | None = None,
    global_clipnorm: float | None = None,
    decay: float = 0.0,
    lr: Any = None,
  ):
    super().__init__(use_locking=False, name=name)
    if lr is not None:
      settings["learning_rate"] = lr
    self.clipnorm, self.clipvalue, self.global_clipnorm = clipnorm, clipvalue, global_clipnorm
    self._settings = settings | {"decay": decay}
    self._decay = decay
    self._slots_of: dict[tuple[int, str], tuple[Any, tf.Variable]] = {}
    self._slot_values = slots
    self._variables: dict[str, tf.Variable] = {}
    self._counted: Any = None
    self._own_count: tf.Variable | None = None

  # ------------------------------------------------------------------ settings

  @property
  def iterations(self) -> Any:
    """Returns the variable that counts the steps: the program's, or its own."""
    if self._counted is not None:
      return self._counted
    if self._own_count is None:
      self._own_count = self._variable("iter", 0, tf.int64)
    return self._own_count

  @iterations.setter
  def iterations(self, variable: Any) -> None:
    self._counted = variable

  @property
  def learning_rate(self) -> Any:
    return self._setting("learning_rate")

  @learning_rate.setter
  def learning_rate(self, value: Any) -> None:
    self._settings["learning_rate"] = value
    self._variables.pop("learning_rate", None)

  lr = learning_rate

  def _setting(self, name: str) -> Any:
    """Returns a setting's variable or tensor; for a schedule, its value at this step."""
    value = self._settings[name]
    if isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
      return value(self.iterations)
    if callable(value):
      return value()
    if isinstance(value, int | float):
      return self._variables.get(name, value)
    return value

  def _variable(self, name: str, value: Any, dtype: tf.DType) -> tf.Variable:
    with tf.init_scope(), tf.name_scope(self.get_name()):
      return tf.Variable(value, trainable=False, name=name, dtype=dtype, aggregation=_ALIKE)

  def number(self, name: str, like: Any) -> tf.Tensor:
    """Returns this step's value of a setting, or an attribute, in a variable's dtype."""
    value = self._setting(name) if name in self._settings else getattr(self, name)
    return tf.cast(value, like.dtype.base_dtype)

  def rate(self, like: Any) -> tf.Tensor:
    """Returns this step's learning rate, in a variable's dtype."""
    found = self.number("learning_rate", like)
    if self._decay:
      found = found / (1.0 + self.number("decay", like) * tf.cast(self.iterations, found.dtype))
    return found

  def count(self, like: Any) -> tf.Tensor:
    """Returns this step's number, from 1 on, in a variable's dtype."""
    return tf.cast(self.iterations + 1, like.dtype.base_dtype)

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
    params = [tensorflow_variable(one) for one in tf.nest.flatten(_called(var_list))]
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
    gradients, variables = zip(*pairs, strict=True)
    return super().apply_gradients(
      list(zip(self._clipped(gradients), variables, strict=True)), None, name
    )

  def _clipped(self, gradients: Sequence[Any]) -> Sequence[Any]:
    if self.clipvalue is not None:
      gradients = [tf.clip_by_value(one, -self.clipvalue, self.clipvalue) for one in gradients]
    if self.clipnorm is not None:
      gradients = [tf.clip_by_norm(one, self.clipnorm) for one in gradients]
    if self.global_clipnorm is not None:
      gradients, _ = tf.clip_by_global_norm(gradients, self.global_clipnorm)
    return gradients

  # ------------------------------------------------------------------ methods for
  # v1.train.Optimizer

  def _create_slots(self, var_list: Sequence[tf.Variable]) -> None:
    for name, value in sorted(self._settings.items()):
      if isinstance(value, int | float) and name not in self._variables:
        self._variables[name] = self._variable(name, float(value), tf.float32)
    _ = self.iterations  # make the counter here, in the outer name scope
    for variable in var_list:
      for name, value in self._slot_values.items():
        if (id(variable), name) not in self._slots_of:
          self._slots_of[id(variable), name] = variable, self._slot(variable, name, value)

  def _slot(self, variable: tf.Variable, name: str, value: float) -> tf.Variable:
    path = f"{variable.name.partition(':')[0]}/{name}"
    shape, dtype = variable.shape, variable.dtype.base_dtype
    return self._variable(path, lambda: tf.fill(shape, tf.cast(value, dtype)), dtype)

  def get_slot(self, var: tf.Variable, name: str) -> tf.Variable | None:
    found = self._slots_of.get((id(var), name))
    return None if found is None else found[1]

  def get_slot_names(self) -> list[str]:
    return sorted(self._slot_values)

  def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
    if self._counted is not None:  # the training loop counts the global step
      return tf.group(*update_ops, name=name_scope)
    with tf.control_dependencies(update_ops):
      return tf.group(assign_add(self.iterations, 1), name=name_scope)

  def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
    return self._run_kernel("ResourceApply", var, grad=grad)

  def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> Any:
    return self._run_kernel("ResourceSparseApply", var, grad=grad, indices=indices)

  def _run_kernel(self, prefix: str, var: tf.Variable, **given: Any) -> Any:
    kernel = getattr(tf.raw_ops, f"{prefix}{self.kernel}", None)
    if kernel is None:
      raise NotImplementedError(f"{self.get_name()} has no kernel for sparse gradients.")
    found = {argument: self.get_slot(var, slot) for argument, slot in self._slot_arguments.items()}
    handles = {name: slot.handle for name, slot in found.items() if slot is not None}
    return kernel(var=var.handle, **handles, **self._arguments(var), **given)

  def _arguments(self, var: tf.Variable) -> dict[str, Any]:
    """Returns the kernel's arguments besides the handles and the gradient."""
    numbers = {name: self.number(setting, var) for name, setting in self._number_arguments.items()}
    return numbers | {"lr": self.rate(var)}


def _called(var_list: Any) -> Any:
  return var_list() if callable(var_list) else var_list


# Assign by the handle of this core's own copy: `assign` of a variable on several cores would wait
# for the other cores.
def assign(var: tf.Variable, value: tf.Tensor) -> tf.Operation:
  return tf.raw_ops.AssignVariableOp(resource=var.handle, value=value)


def assign_add(var: tf.Variable, value: Any) -> tf.Operation:
  value = tf.cast(value, var.dtype.base_dtype)
  return tf.raw_ops.AssignAddVariableOp(resource=var.handle, value=value)


def dense(grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Tensor:
  """Returns the dense gradient of a sparse gradient with distinct indices."""
  return tf.scatter_nd(indices[:, tf.newaxis], grad, tf.shape(var, indices.dtype))
