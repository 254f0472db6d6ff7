"""train_ops: gradients that are combined over the replicas, then accumulated, clipped and applied,
whichever optimizer applies them.

    train_op = trainer.minimize(keras.optimizers.Adam(1e-3), loss, clip_norm=1.0)
    optimizer = trainer.CrossShardOptimizer(tf.compat.v1.train.AdamOptimizer())
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())

A loss is the mean over a replica's batch, so that the mean of the replicas' gradients is the
gradient of the mean over the global batch: what 8 replicas × b and 1 replica × 8b do is the same.
That holds for optimizers used directly as well (`keras.optimizers.Adam().apply_gradients(...)`,
`tf.compat.v1.train.AdamOptimizer().minimize(...)`), for as long as a model_fn is traced.
"""

import functools

import keras
import tensorflow as tf

from trainer import combined_gradients, errors
from trainer.config import gin_names
from trainer.tracing import variable_store

v1 = tf.compat.v1

# Under this name a checkpoint holds the moving averages of the weights.
EMA_SCOPE = "ema"


def ema_name(name):
  """The name of the moving average of a variable."""
  return f"{EMA_SCOPE}/{name}"


@gin_names.configurable(module="trainer", allowlist=["clip_norm", "accumulate_steps", "ema_decay"])
def minimize(
  optimizer,
  loss,
  global_step=None,
  var_list=None,
  clip_norm=None,
  accumulate_steps=1,
  ema_decay=None,
):
  """Makes the train_op of a step: gradients → combine over replicas → accumulate → clip → apply →
  average.

  Args:
    optimizer: a Keras optimizer or a `tf.compat.v1.train` optimizer.
    loss: scalar tensor, the mean over this replica's batch.
    global_step: not needed (the loop counts steps); taken as `tf.compat.v1.train` optimizers take
      it.
    var_list: the variables to train; by default all trainable ones of the model_fn.
    clip_norm: float > 0, the largest global norm of the combined gradient; None to leave it as it
      is.
    accumulate_steps: int > 0; the mean gradient of so many steps is applied at the last of them.
      The optimizer, and a learning-rate schedule in it, counts what it applies; the global step
      counts every step.
    ema_decay: float in (0, 1); keeps exponential moving averages of the trained variables, as
      `ema/<name>`, with which evaluation, prediction and export work (RunConfig.evaluate_ema).

  Returns:
    A train_op for EstimatorSpec.

  Raises:
    ModelFnError: called outside of a model_fn, or no variable has a gradient.
    SettingError: the optimizer is neither kind, or a number is out of range.
  """
  if clip_norm is not None and not clip_norm > 0:
    raise errors.SettingError(
      f"minimize: clip_norm must be greater than 0; got {clip_norm} (gin: minimize.clip_norm)."
    )
  if (
    isinstance(accumulate_steps, bool)
    or not isinstance(accumulate_steps, int)
    or accumulate_steps < 1
  ):
    raise errors.SettingError(
      "minimize: accumulate_steps must be an int greater than 0; got "
      f"{accumulate_steps} (gin: minimize.accumulate_steps)."
    )
  if ema_decay is not None and not 0 < ema_decay < 1:
    raise errors.SettingError(
      f"minimize: ema_decay must be between 0 and 1; got {ema_decay} (gin: minimize.ema_decay)."
    )
  if not isinstance(
    optimizer, keras.optimizers.Optimizer | v1.train.Optimizer | CrossShardOptimizer
  ):
    raise errors.SettingError(
      "minimize: expected a Keras or a tf.compat.v1.train optimizer, got "
      f"{optimizer!r}; a class must be called first."
    )
  store = variable_store.current()
  if store is None:
    raise errors.ModelFnError("minimize must be called inside a model_fn that an Estimator runs.")
  if combined_gradients.is_idle():
    return tf.no_op()
  wrapped = (
    optimizer if isinstance(optimizer, CrossShardOptimizer) else CrossShardOptimizer(optimizer)
  )
  gradients, trained = zip(*wrapped.compute_gradients(loss, var_list), strict=True)
  gradients = combined_gradients.combine(gradients)

  def apply(gradients):
    if clip_norm is not None:
      gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
    train_op = wrapped.apply_combined(list(zip(gradients, trained, strict=True)), global_step)
    if ema_decay is not None:
      _average(trained, ema_decay)
    return train_op

  if accumulate_steps == 1:
    return apply(gradients)
  totals = _accumulate(gradients, trained, accumulate_steps)
  store.after_step(functools.partial(_apply_total, totals, apply), every=accumulate_steps)
  return tf.no_op()


class CrossShardOptimizer:
  """An optimizer under the name that TPU programs know it by; combining the gradients is what every
  optimizer does here.

  Args:
    opt: a Keras or a `tf.compat.v1.train` optimizer.
    reduction: "mean" or "sum" (or as `tf.compat.v1.losses.Reduction` has them): how the replicas'
      gradients are combined.

  Raises:
    SettingError: reduction is neither.
  """

  def __init__(self, opt, reduction="mean", name="CrossShardOptimizer"):
    del name
    reduction = {"weighted_mean": "mean", "weighted_sum": "sum"}.get(reduction, reduction)
    if reduction not in ("mean", "sum"):
      raise errors.SettingError(
        f"CrossShardOptimizer: reduction must be 'mean' or 'sum'; got {reduction!r}."
      )
    self._optimizer = opt
    self._reduction = reduction

  def compute_gradients(self, loss, var_list=None, **kwargs):
    """Returns this replica's [(gradient, variable)] of those variables that have a gradient."""
    store = variable_store.current()
    if store is None:
      raise errors.ModelFnError("minimize must be called inside a model_fn that an Estimator runs.")
    combined_gradients.record_learning_rate(self._optimizer)
    trained = store.trainable_variables() if var_list is None else tf.nest.flatten(var_list)
    if self._reduction == "sum":  # of which apply_gradients takes the mean
      loss *= tf.distribute.get_strategy().num_replicas_in_sync
    of_tensorflow = [_tensorflow_variable(v) for v in trained]
    if isinstance(self._optimizer, keras.optimizers.Optimizer):
      gradients = tf.gradients(self._optimizer.scale_loss(loss), of_tensorflow, **kwargs)
    else:
      found = self._optimizer.compute_gradients(loss, var_list=of_tensorflow, **kwargs)
      gradients = [gradient for gradient, _ in found]
    pairs = [
      (gradient, variable)
      for gradient, variable in zip(gradients, trained, strict=True)
      if gradient is not None
    ]
    if not pairs:
      raise errors.ModelFnError(
        f"The loss depends on none of the {len(trained)} trainable "
        f"variables: {[v.name for v in trained][:10]}."
      )
    return pairs

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    """Combines and applies them."""
    gradients, trained = zip(*[(g, v) for g, v in grads_and_vars if g is not None], strict=True)
    return self.apply_combined(
      list(zip(combined_gradients.combine(gradients), trained, strict=True)), global_step, name
    )

  def apply_combined(self, grads_and_vars, global_step=None, name=None):
    """Applies gradients that are the same on all replicas."""
    if combined_gradients.is_idle():
      return tf.no_op()
    with combined_gradients.combined_scope():
      if isinstance(self._optimizer, v1.train.Optimizer):
        pairs = [(g, _tensorflow_variable(v)) for g, v in grads_and_vars]
        return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
      self._optimizer.apply(*zip(*grads_and_vars, strict=True))
    return self._optimizer.iterations

  def minimize(self, loss, global_step=None, var_list=None):
    return self.apply_gradients(self.compute_gradients(loss, var_list), global_step)

  def __getattr__(self, name):  # get_slot, variables and the like are the optimizer's own
    return getattr(self.__dict__["_optimizer"], name)


def _mirrored(variable, scope, dtype=None):
  """A variable beside a trained one, the same on all replicas, zero at first."""
  name = getattr(variable, "path", variable.name).removesuffix(":0")
  return tf.Variable(
    tf.zeros(variable.shape, dtype or variable.dtype),
    trainable=False,
    name=f"{scope}/{name}",
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )


def _update_each(update, targets, *values):
  """update(target, *values) for each target, on every replica's own copy."""

  def merged(strategy, targets, *values):
    for target, *value in zip(targets, *values, strict=True):
      strategy.extended.update(target, update, args=tuple(value), group=False)

  tf.__internal__.distribute.interim.maybe_merge_call(
    merged, tf.distribute.get_strategy(), targets, *values
  )


def _accumulate(gradients, trained, count):
  with tf.name_scope(""):
    totals = [_mirrored(variable, "accumulated") for variable in trained]
  _update_each(
    lambda total, gradient: total.assign_add(gradient / count),
    totals,
    [tf.convert_to_tensor(gradient) for gradient in gradients],
  )
  return totals


def _apply_total(totals, apply):
  """Applies what was accumulated and starts anew; runs on each replica after the step."""
  apply([tf.identity(total) for total in totals])
  _update_each(lambda total: total.assign(tf.zeros_like(total)), totals)


def _average(trained, decay):
  """Moves the averages towards the variables; the first time, to where these are."""
  with tf.name_scope(""):
    averages = [_mirrored(variable, EMA_SCOPE) for variable in trained]
    updates = tf.Variable(
      0,
      trainable=False,
      name=f"{EMA_SCOPE}/updates",
      dtype=tf.int64,
      aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )

  def move(average, variable, updates):
    kept = tf.where(tf.equal(updates, 0), 0.0, tf.constant(decay, average.dtype))
    average.assign(kept * average + (1 - kept) * tf.convert_to_tensor(variable))

  _update_each(
    move,
    averages,
    [_tensorflow_variable(variable) for variable in trained],
    [updates] * len(averages),
  )
  _update_each(lambda count: count.assign_add(1), [updates])


def _tensorflow_variable(variable):
  return variable if isinstance(variable, tf.Variable) else variable.value
