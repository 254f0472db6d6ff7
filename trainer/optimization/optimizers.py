"""Makes the train_op of a step: combines, accumulates, clips and applies gradients.

    train_op = trainer.minimize(keras.optimizers.Adam(1e-3), loss, clip_norm=1.0)
    optimizer = trainer.CrossShardOptimizer(tf.compat.v1.train.AdamOptimizer())
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())

A loss is the mean over a replica's batch. So the mean of the replicas' gradients is the gradient of
the mean over the global batch, and 8 replicas with b examples each make the same update as 1
replica with 8b examples. This also holds for optimizers that a model_fn calls directly
(`keras.optimizers.Adam().apply_gradients(...)`,
`tf.compat.v1.train.AdamOptimizer().minimize(...)`); see `trainer.optimization.combined_gradients`.
"""

import functools
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.config import gin_names
from trainer.optimization import averages, combined_gradients, global_means, variable_groups
from trainer.settings import setting_types
from trainer.tracing import fetched_operations, replica_updates, store_run, variable_store

v1 = tf.compat.v1


@gin_names.configurable(
  module="trainer", allowlist=["clip_norm", "accumulate_steps", "ema_decay", "groups", "lookahead"]
)
def minimize(
  optimizer: Any,
  loss: Any,
  global_step: Any = None,
  var_list: Any = None,
  clip_norm: setting_types.Positive | None = None,
  accumulate_steps: setting_types.Count = 1,
  ema_decay: averages.Decay | None = None,
  groups: Sequence[variable_groups.VariableGroup] = (),
  lookahead: averages.Lookahead | None = None,
) -> Any:
  """Makes the train_op of a step.

  The order is: gradients → combine over replicas → accumulate → clip → apply → moving averages →
  exchange with the slow weights.

  Args:
    optimizer: a Keras optimizer or a `tf.compat.v1.train` optimizer.
    loss: scalar, the mean over this replica's batch.
    global_step: unused, because the training loop counts steps. The argument exists because the
      minimize of `tf.compat.v1.train` optimizers has it.
    var_list: the variables to train; None for all trainable variables of the model_fn.
    clip_norm: float > 0, the largest global norm of the combined gradient; None for no clipping.
    accumulate_steps: int > 0; apply the mean gradient of this many steps at the last of them; of a
      `trainer.global_mean`, the gradient of the mean over all their values. The optimizer counts
      its updates; the global step counts every step. If a training ends between two updates, the
      checkpoint keeps the sum of the gradients for a training that continues.
    ema_decay: float in (0, 1); keeps exponential moving averages of the trained variables, named
      `ema/<name>`. Evaluation, prediction and export use them (RunConfig.evaluate_ema). Each update
      of the optimizer moves them, one in `accumulate_steps` steps. The first update copies the
      variables; from then on the decay is constant, without a warm-up.
    groups: settings for groups of variables; a variable belongs to the first group that names it.
    lookahead: keep slow weights, named `lookahead/<name>`, and train from them.

  Returns:
    A train_op for EstimatorSpec.

  Raises:
    ModelFnError: the call is outside a model_fn, or the loss depends on no variable.
    SettingError: the optimizer has another type, a number is out of range, or a group names no
      variable.
  """
  if not isinstance(
    optimizer, keras.optimizers.Optimizer | v1.train.Optimizer | CrossShardOptimizer
  ):
    raise errors.SettingError(
      f"minimize: expected a Keras or a tf.compat.v1.train optimizer, got {optimizer!r}; call a "
      "class first."
    )
  _refuse_unused_averages(optimizer)
  store = _current_store()
  if combined_gradients.is_idle():
    return tf.no_op()
  chosen = store.trainable_variables() if var_list is None else tf.nest.flatten(var_list)
  grouped = variable_groups.Groups(groups, chosen)
  wrapped = (
    optimizer if isinstance(optimizer, CrossShardOptimizer) else CrossShardOptimizer(optimizer)
  )
  grouped.exclude_from_decay(wrapped.wrapped)
  # A later step of a window adds to the count of a global mean: its gradients accumulate apart.
  terms = global_means.terms(loss) if accumulate_steps > 1 else [global_means.Term(loss)]
  own_gradients = [wrapped._gradients(term, grouped.trained) for term in terms]
  trained = _with_gradient(own_gradients, grouped.trained)
  # Before clipping: the norm belongs to the global batch's gradient, on any number of replicas.
  of_terms = [combined_gradients.combine(gradients) for gradients in own_gradients]

  def apply(gradients):
    if clip_norm is not None:
      gradients = combined_gradients.add_equal_rows(gradients, wrapped.wrapped)
      gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
    pairs = list(zip(gradients, trained, strict=True))
    grouped.scaled(lambda: wrapped.apply_combined(pairs, global_step), trained)
    if ema_decay is not None:
      averages.update_ema(trained, ema_decay)

  with fetched_operations.changes_made() as changes:
    if accumulate_steps == 1:
      apply([gradient for gradient in of_terms[0] if gradient is not None])
    else:
      # Clip once per update, too: the mean gradient of the steps.
      sums = _accumulate(terms, of_terms, grouped.trained, accumulate_steps)
      store.windows.add(accumulate_steps)
      store_run.request_after_step(
        functools.partial(_apply_total, sums, trained, apply), every=accumulate_steps
      )
    if lookahead is not None:
      averages.look_ahead(trained, store.statistics(), lookahead)
  return fetched_operations.group(changes)


class CrossShardOptimizer:
  """Wraps an optimizer, for programs written for TPUs.

  Those programs need it to combine the gradients of the cores. Octet combines them for every
  optimizer.

  Args:
    opt: a Keras or a `tf.compat.v1.train` optimizer.
    reduction: the reduction of the replicas' gradients: "mean" or "sum", or one of these in
      `tf.compat.v1.losses.Reduction`.
    name: unused.

  Raises:
    SettingError: the reduction has another value.
  """

  def __init__(self, opt: Any, reduction: str = "mean", name: str = "CrossShardOptimizer") -> None:
    del name
    reduction = {"weighted_mean": "mean", "weighted_sum": "sum"}.get(reduction, reduction)
    if reduction not in ("mean", "sum"):
      raise errors.SettingError(
        f"CrossShardOptimizer: reduction must be 'mean' or 'sum'; got {reduction!r}."
      )
    self._optimizer = opt
    self._reduction = reduction

  @property
  def wrapped(self) -> Any:
    """The wrapped optimizer."""
    return self._optimizer

  def compute_gradients(
    self, loss: tf.Tensor, var_list: Any = None, **kwargs: Any
  ) -> list[tuple[Any, Any]]:
    """Computes this replica's gradients.

    Args:
      loss: scalar, the mean over this replica's batch.
      var_list: nest of variables; None for all trainable variables of the model_fn.
      **kwargs: for the wrapped optimizer, or for tf.gradients if that is Keras's.

    Returns:
      (gradient, variable) of each variable that has a gradient.

    Raises:
      ModelFnError: the call is outside a model_fn, or no variable has a gradient.
    """
    store = _current_store()
    trained = store.trainable_variables() if var_list is None else tf.nest.flatten(var_list)
    gradients = self._gradients(global_means.Term(loss), trained, **kwargs)
    with_gradient = _with_gradient([gradients], trained)
    found = [gradient for gradient in gradients if gradient is not None]
    return list(zip(found, with_gradient, strict=True))

  def _gradients(self, term, trained, **kwargs):
    """Returns this replica's gradients of a part of the loss; None for no gradient."""
    loss = term.loss
    combined_gradients.record_learning_rate(self._optimizer)
    # apply_gradients takes the mean over the replicas: N times the mean is the sum.
    if self._reduction == "sum":
      global_means.refuse_sum()
      loss *= tf.distribute.get_strategy().num_replicas_in_sync
    of_tensorflow = [averages.tensorflow_variable(v) for v in trained]
    with term.scope():
      if isinstance(self._optimizer, keras.optimizers.Optimizer):
        self._build_loss_scale(loss, trained, of_tensorflow)
        return tf.gradients(self._optimizer.scale_loss(loss), of_tensorflow, **kwargs)
      pairs = self._optimizer.compute_gradients(loss, var_list=of_tensorflow, **kwargs)
      return [gradient for gradient, _ in pairs]

  def _build_loss_scale(self, loss, trained, of_tensorflow):
    """Builds a LossScaleOptimizer, which would otherwise keep its initial scale for the loss.

    A model_fn makes a new optimizer in each trace. Before the optimizer's build, Keras multiplies
    the loss by the initial scale, but divides the gradients by the current scale.
    """
    if not isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
      return
    if not self._optimizer.built:
      # Only variables with a gradient, like `apply`. TensorFlow prunes these gradients.
      found = tf.gradients(loss, of_tensorflow)
      self._optimizer.build(
        [
          variable
          for variable, gradient in zip(trained, found, strict=True)
          if gradient is not None
        ]
      )

  def apply_gradients(
    self,
    grads_and_vars: Sequence[tuple[Any, Any]],
    global_step: tf.Variable | None = None,
    name: str | None = None,
  ) -> Any:
    """Combines gradients over the replicas and applies them; returns the train_op."""
    gradients, trained = zip(*[(g, v) for g, v in grads_and_vars if g is not None], strict=True)
    return self.apply_combined(
      list(zip(combined_gradients.combine(gradients), trained, strict=True)), global_step, name
    )

  def apply_combined(
    self,
    grads_and_vars: Sequence[tuple[Any, Any]],
    global_step: tf.Variable | None = None,
    name: str | None = None,
  ) -> Any:
    """Applies combined gradients; returns the train_op."""
    if combined_gradients.is_idle():
      return tf.no_op()
    with combined_gradients.combined_scope():
      if isinstance(self._optimizer, v1.train.Optimizer):
        pairs = [(g, averages.tensorflow_variable(v)) for g, v in grads_and_vars]
        return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
      with fetched_operations.changes_made() as changes:
        self._optimizer.apply(*zip(*grads_and_vars, strict=True))
    return fetched_operations.group(changes)

  def minimize(
    self, loss: tf.Tensor, global_step: tf.Variable | None = None, var_list: Any = None
  ) -> Any:
    """Computes, combines and applies the gradients; returns the train_op."""
    return self.apply_gradients(self.compute_gradients(loss, var_list), global_step)

  def __getattr__(self, name: str) -> Any:
    """Returns other attributes, such as get_slot and variables, from the wrapped optimizer."""
    # Through __dict__: during unpickling, self._optimizer would call this method again.
    return getattr(self.__dict__["_optimizer"], name)


def _refuse_unused_averages(optimizer):
  """Refuses moving averages that only Keras's `fit` would use, at its end."""
  if getattr(optimizer, "use_ema", False) and not optimizer.ema_overwrite_frequency:
    raise errors.SettingError(
      f"minimize: the optimizer {optimizer.name} has use_ema=True, and no evaluation or export "
      "would use its averages: leave it out, and set minimize.ema_decay = "
      f"{optimizer.ema_momentum} in gin, or trainer.minimize(..., ema_decay="
      f"{optimizer.ema_momentum}) in a model_fn."
    )


def _current_store():
  if (store := variable_store.current()) is None:
    raise errors.ModelFnError("Call minimize inside the model_fn of an Estimator.")
  return store


def _with_gradient(of_terms, trained):
  """Returns the variables with a gradient of any term of the loss."""
  found = [
    variable
    for variable, *gradients in zip(trained, *of_terms, strict=True)
    if any(gradient is not None for gradient in gradients)
  ]
  if not found:
    raise errors.ModelFnError(
      f"The loss depends on none of the {len(trained)} trainable "
      f"variables: {[v.name for v in trained][:10]}."
    )
  return found


def _accumulate(terms, of_terms, trained, steps):
  """Adds the gradients of a step to variables: divided by the number of steps, or as numerators.

  Returns:
    (totals, count) for each term: id of a trained variable → the variable of its sum; and the
    variable that counts for a global mean. The rest of the loss has no count.
  """
  sums = []
  for number, (term, gradients) in enumerate(zip(terms, of_terms, strict=True)):
    pairs = [
      (tf.convert_to_tensor(gradient), variable)
      for gradient, variable in zip(gradients, trained, strict=True)
      if gradient is not None
    ]
    if term.count is None:
      scope, counts = averages.ACCUMULATED_SCOPE, []
      added = [gradient / steps for gradient, _ in pairs]
    else:
      scope = f"{averages.ACCUMULATED_SCOPE}/global_mean_{number}"
      counts = [averages.counter(f"{scope}/count", tf.float32)]
      added = [gradient * tf.cast(term.count, gradient.dtype) for gradient, _ in pairs]
      added.append(tf.cast(term.count, tf.float32))
    totals = {id(variable): averages.mirrored(variable, scope) for _, variable in pairs}
    replica_updates.update_each(
      lambda total, value: total.assign_add(value), [*totals.values(), *counts], added
    )
    sums.append((totals, *counts))
  return sums


def _apply_total(sums, trained, apply):
  """Applies the accumulated gradients and sets them to 0; runs on each replica after the step."""
  gradients: dict[int, tf.Tensor] = {}
  for totals, *counts in sums:
    for key, total in totals.items():
      # tf.identity reads the values before the last line sets the variables to 0.
      value = tf.identity(total)
      for count in counts:
        value = tf.math.divide_no_nan(value, tf.cast(count, value.dtype))
      gradients[key] = gradients[key] + value if key in gradients else value
  apply([gradients[id(variable)] for variable in trained])
  variables = [each for totals, *counts in sums for each in (*totals.values(), *counts)]
  replica_updates.update_each(lambda total: total.assign(tf.zeros_like(total)), variables)
