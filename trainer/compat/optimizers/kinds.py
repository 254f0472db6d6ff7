"""The optimizers of Keras 2, by their kernels."""

import keras
import tensorflow as tf

from trainer.compat.optimizers.base import Optimizer, assign, assign_add, dense


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
    return self._resource_apply_dense(dense(grad, var, indices), var)


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


KINDS = {one.__name__: one for one in (SGD, Adam, Adagrad, Ftrl, RMSprop, Adadelta, Adamax)}
