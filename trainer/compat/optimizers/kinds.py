"""The kinds of Keras 2's optimizers, from TensorFlow's wheel."""

from typing import Any

import tensorflow as tf

from trainer.compat.optimizers.base import Optimizer, Variables, assign, assign_add
from trainer.internals.tensorflow_internals import KERAS_2_OPTIMIZERS as _OF_WHEEL


class _DenseRows(Optimizer):
  """The wheel assigns whole variables for a sparse gradient, which waits for other cores.

  A dense gradient, with zeros for the missing rows, changes the same.
  """

  def _resource_apply_sparse_duplicate_indices(
    self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
  ) -> Any:
    shape = tf.shape(handle, indices.dtype)
    return self._resource_apply_dense(tf.scatter_nd(indices[:, tf.newaxis], grad, shape), handle)


class _RMSprop(_DenseRows):
  """Without momentum, the wheel assigns whole variables."""

  def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
    if self._wheels._momentum:
      return super()._resource_apply_dense(grad, var)
    numbers, rms = self.numbers(var), self.get_slot(var, "rms")
    rho, rest = numbers["rho"], numbers["one_minus_rho"]
    mean_square = rho * rms + rest * tf.square(grad)
    changed, spread = [assign(rms, mean_square)], mean_square
    if self.centered:
      mean = rho * self.get_slot(var, "mg") + rest * grad
      changed.append(assign(self.get_slot(var, "mg"), mean))
      spread -= tf.square(mean)
    change = numbers["lr_t"] * grad / (tf.sqrt(spread) + numbers["epsilon"])
    return tf.group(*changed, assign_add(var, -change))

  def _resource_apply_sparse_duplicate_indices(
    self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
  ) -> Any:
    if self._wheels._momentum:  # one operation, which updates only these rows
      return Optimizer._resource_apply_sparse_duplicate_indices(self, grad, handle, indices)
    return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices)


class _Adamax(Optimizer):
  """Without a step for sparse gradients: TensorFlow has no operation for it."""

  def _resource_apply_sparse_duplicate_indices(
    self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
  ) -> Any:
    raise NotImplementedError(f"{self.get_name()} has no step for the sparse gradient {grad}.")


_BASES = {"Adam": _DenseRows, "Adamax": _Adamax, "RMSprop": _RMSprop}


def _kind(of_wheel: type) -> type[Optimizer]:
  name = of_wheel.__name__
  own = {"__doc__": of_wheel.__doc__, "__module__": __name__}
  with_variables = type(name, (Variables, of_wheel), own)
  return type(name, (_BASES.get(name, Optimizer),), own | {"of_wheel": with_variables})


KINDS = {one.__name__: _kind(one) for one in _OF_WHEEL}
globals().update(KINDS)
