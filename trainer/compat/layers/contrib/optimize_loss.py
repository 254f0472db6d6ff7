"""tf.contrib.layers.optimize_loss: an optimizer, transformations of gradients, and summaries."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.graph_mode import summary
from trainer.optimization.optimizers import CrossShardOptimizer

v1 = tf.compat.v1

_OPTIMIZERS = (v1.train.Optimizer, CrossShardOptimizer)

OPTIMIZER_CLS_NAMES = {
  "Adagrad": v1.train.AdagradOptimizer,
  "Adam": v1.train.AdamOptimizer,
  "Ftrl": v1.train.FtrlOptimizer,
  "Momentum": lambda learning_rate: v1.train.MomentumOptimizer(learning_rate, momentum=0.9),
  "RMSProp": v1.train.RMSPropOptimizer,
  "SGD": v1.train.GradientDescentOptimizer,
}

OPTIMIZER_SUMMARIES = [
  "learning_rate",
  "loss",
  "gradients",
  "gradient_norm",
  "global_gradient_norm",
]

_Pairs = list[tuple[Any, tf.Variable]]  # (gradient or None, variable)


def optimize_loss(
  loss: Any,
  global_step: Any,
  learning_rate: Any,
  optimizer: Any,
  gradient_noise_scale: float | None = None,
  gradient_multipliers: dict[Any, Any] | None = None,
  clip_gradients: float | Callable | None = None,
  learning_rate_decay_fn: Callable | None = None,
  update_ops: Any = None,
  variables: Sequence[tf.Variable] | None = None,
  name: str | None = None,
  summaries: Sequence[str] | None = None,
  colocate_gradients_with_ops: bool = False,
  increment_global_step: bool = True,
) -> tf.Tensor:
  """Returns a train_op: the loss, after the update of the variables.

  The scope of the optimizer's variables is `OptimizeLoss`, or name.

  Args:
    loss: a scalar.
    global_step: the step's variable; None for the graph's own.
    learning_rate: a float (becomes the variable `learning_rate`), a scalar, or None.
    optimizer: a name of OPTIMIZER_CLS_NAMES, a class or function of the rate, or an optimizer.
    gradient_noise_scale: the standard deviation of noise on the gradients.
    gradient_multipliers: dict of variable or its name (`scope/kernel:0`) → the factor of its
      gradient.
    clip_gradients: the largest global norm, or a function of [(gradient, variable)].
    learning_rate_decay_fn: function of (rate, global_step).
    update_ops: operations to run first; None for UPDATE_OPS.
    variables: the variables to train; None for all trainable ones.
    summaries: the summaries to write, of OPTIMIZER_SUMMARIES.

  Raises:
    ValueError: an argument has another form.
  """
  del colocate_gradients_with_ops
  loss = tf.convert_to_tensor(loss)
  summaries = _checked(summaries)
  global_step = v1.train.get_global_step() if global_step is None else global_step
  with v1.variable_scope(name, "OptimizeLoss", [loss, global_step]):
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
    with tf.control_dependencies(list(updates)):
      loss = tf.identity(loss)
    rate = _rate(learning_rate)
    if rate is not None and learning_rate_decay_fn is not None:
      if global_step is None:
        raise ValueError("global_step is required for learning_rate_decay_fn.")
      rate = learning_rate_decay_fn(rate, global_step)
      if "learning_rate" in summaries:
        summary.scalar("learning_rate", rate)
    made = _optimizer(optimizer, rate)
    pairs = made.compute_gradients(loss, variables or v1.trainable_variables())
    if gradient_noise_scale is not None:
      pairs = [(_with_noise(gradient, gradient_noise_scale), one) for gradient, one in pairs]
    if gradient_multipliers is not None:
      pairs = _multiplied(pairs, gradient_multipliers)
    tells_norm = {"global_gradient_norm", "gradient_norm"} & set(summaries)
    if tells_norm:
      summary.scalar("global_norm/gradient_norm", _global_norm(pairs))
    pairs = _clipped(pairs, clip_gradients)
    if "loss" in summaries:
      summary.scalar("loss", loss)
    _summarize(pairs, summaries)
    if clip_gradients is not None and tells_norm:
      summary.scalar("global_norm/clipped_gradient_norm", _global_norm(pairs))
    counted = global_step if increment_global_step else None
    with tf.control_dependencies([made.apply_gradients(pairs, counted, name="train")]):
      return tf.identity(loss)


def _checked(summaries: Sequence[str] | None) -> Sequence[str]:
  if summaries is None:
    return ["loss", "learning_rate", "global_gradient_norm"]
  for one in summaries:
    if one not in OPTIMIZER_SUMMARIES:
      raise ValueError(
        f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {one}."
      )
  return summaries


def _rate(given: Any) -> Any:
  if given is None or (tf.is_tensor(given) and given.shape.rank == 0):
    return given
  if not isinstance(given, float):
    raise ValueError(f"Learning rate should be 0d Tensor or float. Got {given} of {type(given)}")
  if given < 0:
    raise ValueError(f"Invalid learning_rate {given}.")
  initial = v1.constant_initializer(given)
  return v1.get_variable("learning_rate", [], initializer=initial, trainable=False)


def _optimizer(given: Any, rate: Any) -> Any:
  if isinstance(given, _OPTIMIZERS):
    return given
  named = isinstance(given, str)
  if named and given not in OPTIMIZER_CLS_NAMES:
    known = ", ".join(OPTIMIZER_CLS_NAMES)
    raise ValueError(f"Optimizer name should be one of [{known}], you provided {given}.")
  if rate is None and (named or isinstance(given, type)):
    raise ValueError(f"Learning rate is None, but should be specified with optimizer {given!r}.")
  make = OPTIMIZER_CLS_NAMES[given] if named else given
  made = None
  if callable(make):
    made = make() if rate is None else make(rate)
  if not isinstance(made, _OPTIMIZERS):
    raise ValueError(
      "Unrecognized optimizer: should be string, subclass of Optimizer, instance of it, or "
      f"function that returns one. Got {given!r}."
    )
  return made


def _with_noise(gradient: Any, scale: float) -> Any:
  if gradient is None:
    return None
  dense = tf.convert_to_tensor(gradient)
  return dense + scale * tf.random.truncated_normal(tf.shape(dense), dtype=dense.dtype)


def _multiplied(pairs: _Pairs, multipliers: dict[Any, Any]) -> _Pairs:
  by_name = {key if isinstance(key, str) else key.name: value for key, value in multipliers.items()}
  return [(scaled(gradient, by_name.get(one.name)), one) for gradient, one in pairs]


def scaled(gradient: Any, factor: Any) -> Any:
  """Returns a gradient of any kind times a factor; unchanged if either is None."""
  if gradient is None or factor is None:
    return gradient
  return changed(gradient, lambda values: values * tf.cast(factor, values.dtype))


def changed(gradient: Any, change: Callable[[tf.Tensor], tf.Tensor]) -> Any:
  """Returns a gradient of any kind with changed values; None stays None."""
  if isinstance(gradient, tf.IndexedSlices):
    values = change(gradient.values)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
  return None if gradient is None else change(gradient)


def _clipped(pairs: _Pairs, clip: float | Callable | None) -> _Pairs:
  if clip is None:
    return pairs
  if callable(clip):
    return clip(pairs)
  if not isinstance(clip, float):
    raise ValueError(f"Unknown type {type(clip)} for clip_gradients")
  gradients, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], clip)
  return [(gradient, one) for gradient, (_, one) in zip(gradients, pairs, strict=True)]


def _global_norm(pairs: _Pairs) -> tf.Tensor:
  return tf.linalg.global_norm([gradient for gradient, _ in pairs])


def _summarize(pairs: _Pairs, summaries: Sequence[str]) -> None:
  for gradient, one in pairs:
    if gradient is None:
      continue
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    tag = one.name.replace(":", "_")
    if "gradients" in summaries:
      v1.summary.histogram(f"gradients/{tag}", values)
    if "gradient_norm" in summaries:
      summary.scalar(f"gradient_norm/{tag}", tf.linalg.global_norm([values]))
