"""The kinds of Keras 2's optimizers, by their kernels."""

import keras
import tensorflow as tf

from trainer.compat.optimizers.base import Optimizer, assign, assign_add, dense


class SGD(
  Optimizer, kernel="KerasMomentum", slots={"accum": "momentum"}, numbers={"momentum": "momentum"}
):
  """Gradient descent, with momentum."""

  def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False, name="SGD", **others):
    has_momentum = not isinstance(momentum, int | float) or momentum > 0
    settings = {"learning_rate": learning_rate, "momentum": momentum}
    super().__init__(name, settings, {"momentum": 0.0} if has_momentum else {}, **others)
    self._has_momentum, self.nesterov = has_momentum, nesterov

  def _resource_apply_dense(self, grad, var):
    if self._has_momentum:
      return super()._resource_apply_dense(grad, var)
    return tf.raw_ops.ResourceApplyGradientDescent(var=var.handle, alpha=self.rate(var), delta=grad)

  def _resource_apply_sparse(self, grad, var, indices):
    if self._has_momentum:
      return super()._resource_apply_sparse(grad, var, indices)
    return tf.raw_ops.ResourceScatterSub(
      resource=var.handle, indices=indices, updates=self.rate(var) * grad
    )

  def _arguments(self, var):
    return super()._arguments(var) | {"use_nesterov": self.nesterov}


class Adam(
  Optimizer,
  slots={"m": "m", "v": "v", "vhat": "vhat"},
  numbers={"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon"},
):
  """Adam. Rows that a sparse gradient lacks still move by their averages."""

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
    self.kernel = "AdamWithAmsgrad" if amsgrad else "Adam"

  def _arguments(self, var):
    found, count = super()._arguments(var), self.count(var)
    powers = {f"{name}_power": tf.pow(found[name], count) for name in ("beta1", "beta2")}
    return found | powers

  def _resource_apply_sparse(self, grad, var, indices):
    return self._resource_apply_dense(dense(grad, var, indices), var)


class Adagrad(
  Optimizer, kernel="AdagradV2", slots={"accum": "accumulator"}, numbers={"epsilon": "epsilon"}
):
  """Adagrad."""

  def __init__(
    self, learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-7, name="Adagrad", **others
  ):
    slots = {"accumulator": initial_accumulator_value}
    super().__init__(name, {"learning_rate": learning_rate}, slots, **others)
    self.epsilon = epsilon or keras.backend.epsilon()


class Ftrl(
  Optimizer,
  kernel="FtrlV2",
  slots={"accum": "accumulator", "linear": "linear"},
  numbers={
    "l1": "l1_regularization_strength",
    "l2": "l2_regularization_strength",
    "l2_shrinkage": "_shrinkage",
    "lr_power": "learning_rate_power",
  },
):
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

  def _arguments(self, var):
    found, beta = super()._arguments(var), self.number("beta", var)
    return found | {"l2": found["l2"] + beta / (2.0 * found["lr"])}


class RMSprop(
  Optimizer,
  slots={"ms": "rms", "mom": "momentum", "mg": "mg"},
  numbers={"rho": "rho", "momentum": "momentum", "epsilon": "epsilon"},
):
  """RMSprop, with momentum and centering."""

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
    self.kernel = "CenteredRMSProp" if centered else "RMSProp"
    self.epsilon = epsilon or keras.backend.epsilon()

  def _resource_apply_dense(self, grad, var):
    if self._has_momentum:
      return super()._resource_apply_dense(grad, var)
    rho, rms = self.number("rho", var), self.get_slot(var, "rms")
    mean_square = rho * rms + (1.0 - rho) * tf.square(grad)
    changed, spread = [assign(rms, mean_square)], mean_square
    if self.centered:
      mean = rho * self.get_slot(var, "mg") + (1.0 - rho) * grad
      changed.append(assign(self.get_slot(var, "mg"), mean))
      spread -= tf.square(mean)
    change = self.rate(var) * grad / (tf.sqrt(spread) + self.epsilon)
    return tf.group(*changed, assign_add(var, -change))

  def _resource_apply_sparse(self, grad, var, indices):
    if not self._has_momentum:
      return self._resource_apply_dense(dense(grad, var, indices), var)
    return super()._resource_apply_sparse(grad, var, indices)


class Adadelta(
  Optimizer,
  kernel="Adadelta",
  slots={"accum": "accum_grad", "accum_update": "accum_var"},
  numbers={"rho": "rho", "epsilon": "epsilon"},
):
  """Adadelta."""

  def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-7, name="Adadelta", **others):
    slots = {"accum_grad": 0.0, "accum_var": 0.0}
    super().__init__(name, {"learning_rate": learning_rate, "rho": rho}, slots, **others)
    self.epsilon = epsilon or keras.backend.epsilon()


class Adamax(
  Optimizer,
  kernel="AdaMax",
  slots={"m": "m", "v": "v"},
  numbers={"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon"},
):
  """Adamax: Adam with the largest gradient instead of the second moment."""

  def __init__(
    self, learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7, name="Adamax", **others
  ):
    settings = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
    super().__init__(name, settings, {"m": 0.0, "v": 0.0}, **others)
    self.epsilon = epsilon or keras.backend.epsilon()

  def _arguments(self, var):
    found = super()._arguments(var)
    return found | {"beta1_power": tf.pow(found["beta1"], self.count(var))}


KINDS = {one.__name__: one for one in (SGD, Adam, Adagrad, Ftrl, RMSprop, Adadelta, Adamax)}
