"""tf.keras.optimizers.legacy: the optimizers of Keras 2, which estimators of TensorFlow 2 use.

    optimizer = tf.keras.optimizers.legacy.Adam(0.01)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    train_op = optimizer.get_updates(loss, tf.compat.v1.trainable_variables())[0]

They are optimizers of tf.compat.v1.train with the kernels, defaults and names of Keras 2: a slot is
called `training/Adam/dense/kernel/m`, where `training` is the name scope around the call, and a
setting is a variable, `training/Adam/learning_rate`. So checkpoints of 2.15 fit.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from trainer import combined_gradients
from trainer.compat.v1.differentiation import tensorflow_variable

v1 = tf.compat.v1

_ALIKE = tf.VariableAggregation.ONLY_FIRST_REPLICA  # every replica makes the same changes


class Optimizer(v1.train.Optimizer):
  """What the optimizers have in common.

  Args:
    name: in front of the names of its variables.
    settings: dict of name → number, tensor, or function that returns one; "learning_rate" may be
      a LearningRateSchedule.
    slots: dict of name → the value that it begins with.
    clipnorm, clipvalue, global_clipnorm: how gradients are clipped; None for not at all.
    decay: the learning rate is divided by 1 + decay * iterations.
    lr: the older name of learning_rate.
  """

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
    """The variable that counts the steps: what was set, or its own."""
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
    """A setting's variable, or the tensor that it is; a schedule's value at this step."""
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
    """A setting of this step, in the dtype of a variable."""
    return tf.cast(self._setting(name), like.dtype.base_dtype)

  def rate(self, like: Any) -> tf.Tensor:
    """The learning rate of this step, in the dtype of a variable."""
    found = self.number("learning_rate", like)
    if self._decay:
      found = found / (1.0 + self.number("decay", like) * tf.cast(self.iterations, found.dtype))
    return found

  def count(self, like: Any) -> tf.Tensor:
    """The number of this step, from 1 on, in the dtype of a variable."""
    return tf.cast(self.iterations + 1, like.dtype.base_dtype)

  # ------------------------------------------------------------------ what programs call

  def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
    """The gradients of a loss with respect to variables; clipped when they are applied."""
    pairs = self.compute_gradients(loss, [tensorflow_variable(one) for one in params])
    return [gradient for gradient, _ in pairs]

  def get_updates(self, loss: Any, params: Sequence[Any]) -> list[Any]:
    """[the train_op] of a loss."""
    return [self.minimize(loss, params)]

  def minimize(
    self,
    loss: Any,
    var_list: Any,
    grad_loss: Any = None,
    name: str | None = None,
    tape: tf.GradientTape | None = None,
  ) -> Any:
    """The train_op of a loss, a tensor or a function that returns one."""
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
    """The train_op of [(gradient, variable)]."""
    # Gradients of several cores are combined already, and the training loop counts.
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

  # ------------------------------------------------------------------ what v1.train.Optimizer calls

  def _create_slots(self, var_list: Sequence[tf.Variable]) -> None:
    for name, value in sorted(self._settings.items()):
      if isinstance(value, int | float) and name not in self._variables:
        self._variables[name] = self._variable(name, float(value), tf.float32)
    _ = self.iterations  # which makes its own variable here, where the name scope is that of all
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
      return tf.group(_assign_add(self.iterations, 1), name=name_scope)

  def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
    return self._resource_apply_dense(grad, var)

  def _handles(self, var: tf.Variable, **slots: str) -> dict[str, Any]:
    """The handles of a variable and its slots, as arguments of a kernel."""
    found = {argument: self.get_slot(var, slot) for argument, slot in slots.items()}
    there = {name: slot.handle for name, slot in found.items() if slot is not None}
    return {"var": var.handle} | there


def _called(var_list: Any) -> Any:
  return var_list() if callable(var_list) else var_list


class SGD(Optimizer):
  """Gradient descent, with momentum."""

  def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False, name="SGD", **others):
    has_momentum = not isinstance(momentum, int | float) or momentum > 0
    settings = {"learning_rate": learning_rate, "momentum": momentum}
    super().__init__(name, settings, {"momentum": 0.0} if has_momentum else {}, **others)
    self._has_momentum, self.nesterov = has_momentum, nesterov

  def _resource_apply_dense(self, grad, var):
    if not self._has_momentum:
      return tf.raw_ops.ResourceApplyGradientDescent(
        var=var.handle, alpha=self.rate(var), delta=grad
      )
    return tf.raw_ops.ResourceApplyKerasMomentum(**self._arguments(grad, var))

  def _resource_apply_sparse(self, grad, var, indices):
    if not self._has_momentum:
      return tf.raw_ops.ResourceScatterSub(
        resource=var.handle, indices=indices, updates=self.rate(var) * grad
      )
    return tf.raw_ops.ResourceSparseApplyKerasMomentum(
      **self._arguments(grad, var), indices=indices
    )

  def _arguments(self, grad, var):
    return self._handles(var, accum="momentum") | dict(
      lr=self.rate(var),
      grad=grad,
      momentum=self.number("momentum", var),
      use_nesterov=self.nesterov,
    )


class Adam(Optimizer):
  """Adam. Rows of a variable that a sparse gradient does not have move on by their averages."""

  def __init__(
    self,
    learning_rate=0.001,
    beta_1=0.9,
    beta_2=0.999,
    epsilon=1e-7,
    amsgrad=False,
    name="Adam",
    **others,
  ):
    settings = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
    slots = {"m": 0.0, "v": 0.0} | ({"vhat": 0.0} if amsgrad else {})
    super().__init__(name, settings, slots, **others)
    self.epsilon, self.amsgrad = epsilon or keras.backend.epsilon(), amsgrad

  def _resource_apply_dense(self, grad, var):
    beta_1, beta_2 = self.number("beta_1", var), self.number("beta_2", var)
    kernel = (
      tf.raw_ops.ResourceApplyAdamWithAmsgrad if self.amsgrad else tf.raw_ops.ResourceApplyAdam
    )
    return kernel(
      **self._handles(var, m="m", v="v", vhat="vhat"),
      beta1_power=tf.pow(beta_1, self.count(var)),
      beta2_power=tf.pow(beta_2, self.count(var)),
      lr=self.rate(var),
      beta1=beta_1,
      beta2=beta_2,
      epsilon=tf.cast(self.epsilon, var.dtype.base_dtype),
      grad=grad,
    )

  def _resource_apply_sparse(self, grad, var, indices):
    return self._resource_apply_dense(_dense(grad, var, indices), var)


class Adagrad(Optimizer):
  """Adagrad."""

  def __init__(
    self, learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-7, name="Adagrad", **others
  ):
    slots = {"accumulator": initial_accumulator_value}
    super().__init__(name, {"learning_rate": learning_rate}, slots, **others)
    self.epsilon = epsilon or keras.backend.epsilon()

  def _resource_apply_dense(self, grad, var):
    return tf.raw_ops.ResourceApplyAdagradV2(**self._arguments(grad, var))

  def _resource_apply_sparse(self, grad, var, indices):
    return tf.raw_ops.ResourceSparseApplyAdagradV2(**self._arguments(grad, var), indices=indices)

  def _arguments(self, grad, var):
    epsilon = tf.cast(self.epsilon, var.dtype.base_dtype)
    return self._handles(var, accum="accumulator") | dict(
      lr=self.rate(var), epsilon=epsilon, grad=grad
    )


class Ftrl(Optimizer):
  """Follow the regularized leader."""

  def __init__(
    self,
    learning_rate=0.001,
    learning_rate_power=-0.5,
    initial_accumulator_value=0.1,
    l1_regularization_strength=0.0,
    l2_regularization_strength=0.0,
    name="Ftrl",
    l2_shrinkage_regularization_strength=0.0,
    beta=0.0,
    **others,
  ):
    settings = {
      "learning_rate": learning_rate,
      "learning_rate_power": learning_rate_power,
      "l1_regularization_strength": l1_regularization_strength,
      "l2_regularization_strength": l2_regularization_strength,
      "beta": beta,
    }
    slots = {"accumulator": initial_accumulator_value, "linear": 0.0}
    super().__init__(name, settings, slots, **others)
    self._shrinkage = l2_shrinkage_regularization_strength

  def _resource_apply_dense(self, grad, var):
    return tf.raw_ops.ResourceApplyFtrlV2(**self._arguments(grad, var))

  def _resource_apply_sparse(self, grad, var, indices):
    return tf.raw_ops.ResourceSparseApplyFtrlV2(**self._arguments(grad, var), indices=indices)

  def _arguments(self, grad, var):
    rate, beta = self.rate(var), self.number("beta", var)
    return self._handles(var, accum="accumulator", linear="linear") | dict(
      grad=grad,
      lr=rate,
      l1=self.number("l1_regularization_strength", var),
      l2=self.number("l2_regularization_strength", var) + beta / (2.0 * rate),
      l2_shrinkage=tf.cast(self._shrinkage, var.dtype.base_dtype),
      lr_power=self.number("learning_rate_power", var),
    )


class RMSprop(Optimizer):
  """RMSprop, with momentum, and centered."""

  def __init__(
    self,
    learning_rate=0.001,
    rho=0.9,
    momentum=0.0,
    epsilon=1e-7,
    centered=False,
    name="RMSprop",
    **others,
  ):
    has_momentum = not isinstance(momentum, int | float) or momentum > 0
    settings = {"learning_rate": learning_rate, "rho": rho, "momentum": momentum}
    slots = {"rms": 0.0}
    slots |= {"momentum": 0.0} if has_momentum else {}
    slots |= {"mg": 0.0} if centered else {}
    super().__init__(name, settings, slots, **others)
    self._has_momentum, self.centered = has_momentum, centered
    self.epsilon = epsilon or keras.backend.epsilon()

  def _resource_apply_dense(self, grad, var):
    if self._has_momentum:
      kernels = tf.raw_ops.ResourceApplyCenteredRMSProp, tf.raw_ops.ResourceApplyRMSProp
      return kernels[not self.centered](**self._arguments(grad, var))
    rho, rms = self.number("rho", var), self.get_slot(var, "rms")
    mean_square = rho * rms + (1.0 - rho) * tf.square(grad)
    changed, spread = [_assign(rms, mean_square)], mean_square
    if self.centered:
      mean = rho * self.get_slot(var, "mg") + (1.0 - rho) * grad
      changed.append(_assign(self.get_slot(var, "mg"), mean))
      spread -= tf.square(mean)
    change = self.rate(var) * grad / (tf.sqrt(spread) + self.epsilon)
    return tf.group(*changed, _assign_add(var, -change))

  def _resource_apply_sparse(self, grad, var, indices):
    if not self._has_momentum:
      return self._resource_apply_dense(_dense(grad, var, indices), var)
    raw = tf.raw_ops
    kernels = raw.ResourceSparseApplyCenteredRMSProp, raw.ResourceSparseApplyRMSProp
    return kernels[not self.centered](**self._arguments(grad, var), indices=indices)

  def _arguments(self, grad, var):
    return self._handles(var, ms="rms", mom="momentum", mg="mg") | dict(
      lr=self.rate(var),
      rho=self.number("rho", var),
      momentum=self.number("momentum", var),
      epsilon=tf.cast(self.epsilon, var.dtype.base_dtype),
      grad=grad,
    )


class Adadelta(Optimizer):
  """Adadelta."""

  def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-7, name="Adadelta", **others):
    slots = {"accum_grad": 0.0, "accum_var": 0.0}
    super().__init__(name, {"learning_rate": learning_rate, "rho": rho}, slots, **others)
    self.epsilon = epsilon or keras.backend.epsilon()

  def _resource_apply_dense(self, grad, var):
    return tf.raw_ops.ResourceApplyAdadelta(**self._arguments(grad, var))

  def _resource_apply_sparse(self, grad, var, indices):
    return tf.raw_ops.ResourceSparseApplyAdadelta(**self._arguments(grad, var), indices=indices)

  def _arguments(self, grad, var):
    return self._handles(var, accum="accum_grad", accum_update="accum_var") | dict(
      lr=self.rate(var),
      rho=self.number("rho", var),
      epsilon=tf.cast(self.epsilon, var.dtype.base_dtype),
      grad=grad,
    )


class Adamax(Optimizer):
  """Adamax: Adam by the largest gradient."""

  def __init__(
    self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, name="Adamax", **others
  ):
    settings = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
    super().__init__(name, settings, {"m": 0.0, "v": 0.0}, **others)
    self.epsilon = epsilon or keras.backend.epsilon()

  def _resource_apply_dense(self, grad, var):
    beta_1 = self.number("beta_1", var)
    return tf.raw_ops.ResourceApplyAdaMax(
      **self._handles(var, m="m", v="v"),
      beta1_power=tf.pow(beta_1, self.count(var)),
      lr=self.rate(var),
      beta1=beta_1,
      beta2=self.number("beta_2", var),
      epsilon=tf.cast(self.epsilon, var.dtype.base_dtype),
      grad=grad,
    )


# By handle, which is that of this core's own copy: what assign does to a variable of several cores
# would wait for the others.
def _assign(var: tf.Variable, value: tf.Tensor) -> tf.Operation:
  return tf.raw_ops.AssignVariableOp(resource=var.handle, value=value)


def _assign_add(var: tf.Variable, value: Any) -> tf.Operation:
  value = tf.cast(value, var.dtype.base_dtype)
  return tf.raw_ops.AssignAddVariableOp(resource=var.handle, value=value)


def _dense(grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Tensor:
  """The dense gradient of a sparse one whose indices differ."""
  return tf.scatter_nd(indices[:, tf.newaxis], grad, tf.shape(var, indices.dtype))


KINDS = {one.__name__: one for one in (SGD, Adam, Adagrad, Ftrl, RMSprop, Adadelta, Adamax)}


def like(optimizer: keras.optimizers.Optimizer) -> Optimizer:
  """The optimizer here with the settings of one of Keras 3, as 2.15 converts them.

  Raises:
    ValueError: there is none of its kind, or with such settings, or its class is the program's own.
  """
  name = type(optimizer).__name__
  if name not in KINDS or not type(optimizer).__module__.startswith("keras."):
    raise ValueError(
      f"An optimizer {name} cannot train as one of Keras 2 does; expected one of "
      f"{', '.join(KINDS)} of tf.keras.optimizers, or a tf.compat.v1.train.Optimizer."
    )
  given = getattr(optimizer, "given", None)  # which those of trainer.compat.v2 keep
  kept = _of_config(optimizer) if given is None else dict(given)
  rate = kept.get("learning_rate")
  if isinstance(rate, dict):
    kept["learning_rate"] = keras.optimizers.schedules.deserialize(rate)
  kept = {key: value for key, value in kept.items() if value is not None}
  known = {*arguments(name), "clipnorm", "clipvalue", "global_clipnorm"}
  if unknown := sorted(set(kept) - known):
    raise ValueError(f"{name}({unknown[0]}=...): an optimizer of Keras 2 has no such setting.")
  return KINDS[name](**kept)


def arguments(name: str) -> list[str]:
  """The names of the arguments of an optimizer, in their order."""
  return [one for one in inspect.signature(KINDS[name]).parameters if one != "others"]


# What Keras 3 writes into each configuration, with the values that mean nothing.
_OF_KERAS_3 = {
  "weight_decay": None,
  "use_ema": False,
  "ema_momentum": 0.99,
  "ema_overwrite_frequency": None,
  "loss_scale_factor": None,
  "gradient_accumulation_steps": None,
}


def _of_config(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
  with tf.init_scope():  # it reads its variables
    config = optimizer.get_config()
  del config["name"]  # numbered by what the process has made
  return {
    key: value
    for key, value in config.items()
    if key not in _OF_KERAS_3 or value != _OF_KERAS_3[key]
  }
