"""train_ops: gradients that are combined over the replicas, then clipped, then applied, whichever optimizer applies them.

    train_op = trainer.minimize(keras.optimizers.Adam(1e-3), loss, clip_norm=1.0)
    train_op = trainer.CrossShardOptimizer(tf.compat.v1.train.AdamOptimizer()).minimize(loss, tf.compat.v1.train.get_global_step())

A loss is the mean over a replica's batch, so that the mean of the replicas' gradients is the gradient of the mean over the global batch: what 8
replicas × b and 1 replica × 8b do is the same. That holds for optimizers used directly as well (`keras.optimizers.Adam().apply_gradients(...)`,
`tf.compat.v1.train.AdamOptimizer().minimize(...)`), for as long as a model_fn is traced.
"""

import contextlib
from unittest import mock

import gin
import keras
import tensorflow as tf
from keras.src.backend.tensorflow import optimizer as tf_optimizer
from keras.src.optimizers import base_optimizer

from trainer import errors, summaries, variables

v1 = tf.compat.v1

_keras_apply = base_optimizer.BaseOptimizer.apply


@gin.configurable(module="trainer", allowlist=["clip_norm"])
def minimize(optimizer, loss, global_step=None, var_list=None, clip_norm=None):
  """Makes the train_op of a step: forward → loss → gradients → combine over replicas → clip → apply.

  Args:
    optimizer: a Keras optimizer or a `tf.compat.v1.train` optimizer.
    loss: scalar tensor, the mean over this replica's batch.
    global_step: not needed (the loop counts steps); taken as `tf.compat.v1.train` optimizers take it.
    var_list: the variables to train; by default all trainable ones of the model_fn.
    clip_norm: float > 0, the largest global norm of the combined gradient; None to leave it as it is.

  Returns:
    A train_op for EstimatorSpec.

  Raises:
    ModelFnError: called outside of a model_fn, or no variable has a gradient.
    SettingError: the optimizer is neither kind, or clip_norm is not positive.
  """
  if clip_norm is not None and not clip_norm > 0:
    raise errors.SettingError(f"minimize: clip_norm must be positive; got {clip_norm} (gin: minimize.clip_norm).")
  if not isinstance(optimizer, keras.optimizers.Optimizer | v1.train.Optimizer | CrossShardOptimizer):
    raise errors.SettingError(f"minimize: expected a Keras or a tf.compat.v1.train optimizer, got {optimizer!r}; a class must be called first.")
  wrapped = optimizer if isinstance(optimizer, CrossShardOptimizer) else CrossShardOptimizer(optimizer)
  grads_and_vars = wrapped.compute_gradients(loss, var_list)
  if clip_norm is not None:
    gradients, trained = zip(*grads_and_vars, strict=True)
    gradients = _combine(gradients)
    gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
    return wrapped.apply_combined(list(zip(gradients, trained, strict=True)), global_step)
  return wrapped.apply_gradients(grads_and_vars, global_step)


class CrossShardOptimizer:
  """An optimizer under the name that TPU programs know it by; combining the gradients is what every optimizer does here.

  Args:
    opt: a Keras or a `tf.compat.v1.train` optimizer.
    reduction: "mean" or "sum" (`tf.compat.v1.losses.Reduction`): how the replicas' gradients are combined.

  Raises:
    SettingError: reduction is neither.
  """

  def __init__(self, opt, reduction="mean", name="CrossShardOptimizer"):
    del name
    reduction = {"weighted_mean": "mean", "weighted_sum": "sum"}.get(reduction, reduction)
    if reduction not in ("mean", "sum"):
      raise errors.SettingError(f"CrossShardOptimizer: reduction must be 'mean' or 'sum'; got {reduction!r}.")
    self._optimizer = opt
    self._reduction = reduction

  def compute_gradients(self, loss, var_list=None, **kwargs):
    """Returns this replica's [(gradient, variable)] of those variables that have a gradient."""
    store = variables.current()
    if store is None:
      raise errors.ModelFnError("minimize must be called inside a model_fn that an Estimator runs.")
    _record_learning_rate(self._optimizer)
    trained = store.trainable_variables() if var_list is None else tf.nest.flatten(var_list)
    if self._reduction == "sum":  # of which apply_gradients takes the mean
      loss *= tf.distribute.get_strategy().num_replicas_in_sync
    if isinstance(self._optimizer, keras.optimizers.Optimizer):
      loss = self._optimizer.scale_loss(loss)
    gradients = tf.gradients(loss, [_tensorflow_variable(v) for v in trained], **kwargs)
    pairs = [(gradient, variable) for gradient, variable in zip(gradients, trained, strict=True) if gradient is not None]
    if not pairs:
      raise errors.ModelFnError(f"The loss depends on none of the {len(trained)} trainable variables: {[v.name for v in trained][:10]}.")
    return pairs

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    """Combines and applies them."""
    gradients, trained = zip(*[(g, v) for g, v in grads_and_vars if g is not None], strict=True)
    return self.apply_combined(list(zip(_combine(gradients), trained, strict=True)), global_step, name)

  def apply_combined(self, grads_and_vars, global_step=None, name=None):
    """Applies gradients that are the same on all replicas."""
    if isinstance(self._optimizer, v1.train.Optimizer):
      pairs = [(g, _tensorflow_variable(v)) for g, v in grads_and_vars]
      return _apply_v1(self._optimizer, pairs, global_step, name)
    _keras_apply(self._optimizer, *zip(*grads_and_vars, strict=True))
    return self._optimizer.iterations if global_step is None else global_step.assign_add(1)

  def minimize(self, loss, global_step=None, var_list=None):
    return self.apply_gradients(self.compute_gradients(loss, var_list), global_step)

  def __getattr__(self, name):  # get_slot, variables and the like are the optimizer's own
    return getattr(self.__dict__["_optimizer"], name)


@contextlib.contextmanager
def combining_gradients(strategy):
  """Inside, optimizers that a model_fn calls directly apply the mean over replicas; entered once around a trace.

  Keras optimizers would clip each replica's gradients and then sum them; those of tf.compat.v1 would sum them.
  """

  def apply_mean(optimizer, grads, trainable_variables=None):
    _record_learning_rate(optimizer)
    return _keras_apply(optimizer, _combine(grads), trainable_variables)

  def as_they_are(optimizer, grads_and_vars):
    return list(grads_and_vars)

  scales_loss = strategy._scale_loss_for_estimator  # how tf.compat.v1 optimizers learn that a sum shall be a mean
  strategy._scale_loss_for_estimator = True
  try:
    with (
        mock.patch.object(base_optimizer.BaseOptimizer, "apply", apply_mean),
        mock.patch.object(tf_optimizer.TFOptimizer, "_all_reduce_sum_gradients", as_they_are),
    ):
      yield
  finally:
    strategy._scale_loss_for_estimator = scales_loss


def _combine(gradients):
  """The mean over the replicas of each gradient; None stays None."""
  context = tf.distribute.get_replica_context()
  if context.num_replicas_in_sync == 1:
    return list(gradients)
  present = [gradient for gradient in gradients if gradient is not None]
  combined = iter(context.all_reduce(tf.distribute.ReduceOp.MEAN, present))
  return [None if gradient is None else next(combined) for gradient in gradients]


def _apply_v1(optimizer, grads_and_vars, global_step, name):
  """A v1 optimizer sums over the replicas what it applies."""
  replicas = tf.distribute.get_strategy().num_replicas_in_sync
  pairs = [(gradient / replicas if replicas > 1 else gradient, variable) for gradient, variable in grads_and_vars]
  return optimizer.apply_gradients(pairs, global_step=global_step, name=name)


def _tensorflow_variable(variable):
  return variable if isinstance(variable, tf.Variable) else variable.value


def _record_learning_rate(optimizer):
  rate = getattr(optimizer, "learning_rate", None)
  for name in ("_learning_rate", "_lr"):  # as tf.compat.v1.train has it
    rate = getattr(optimizer, name, None) if rate is None else rate
  if rate is not None:
    summaries.record("learning_rate", tf.convert_to_tensor(rate() if callable(rate) else rate))
