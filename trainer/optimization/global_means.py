"""Means over the real values of the global batch, such as the tokens of its texts without padding.

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [batch, time]
    loss = trainer.global_mean(losses, weights=labels > 0) + sum(model.losses)

A core that divides by its own count makes a mean of means, in which a core with two tokens has the
same share as a core with two hundred. A global mean carries both numbers: S, the sum of
weight × value, and C, the sum of the weights. For a loss f₁ · S₁/C₁ + f₂ · S₂/C₂ + ... + P, with
constant factors f, Octet computes, for each of the means:

    a training step         Σ f·S / Σ C, both sums over the cores
    accumulate_steps = n    the gradient Σ f·∇S / Σ C, both sums over the cores and the n steps
    an evaluation           Σ f·S / Σ C, both sums over the cores and all batches

P is the rest of the loss, such as the penalties of regularizers. It is the mean over the cores and
the steps, or the examples of an evaluation: a penalty counts once. A mean without any weight is 0.
"""

import contextlib
import dataclasses
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import keras_internals, patches
from trainer.tracing import store_run


@dataclasses.dataclass(frozen=True)
class GlobalMean:
  """A mean of one call of a model_fn. All tensors are scalars.

  Attributes:
    value: in training, the mean over the cores of this is the global mean; in an evaluation, it is
      the mean of this core's batch.
    total: the sum of weight × value of this core, times the cores in training.
    count: the sum of the weights: in training of all cores, in an evaluation of this core.
  """

  value: tf.Tensor
  total: tf.Tensor
  count: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Term:
  """A part of a loss that accumulates by itself.

  Attributes:
    loss: scalar tensor.
    count: the count of a global mean, or None.
    is_rest: whether this is the rest of the loss, without its global means.
  """

  loss: tf.Tensor
  count: tf.Tensor | None = None
  is_rest: bool = False

  def scope(self) -> contextlib.AbstractContextManager[None]:
    """Lets gradients in a `with` block flow through global means only if this is not the rest."""
    return patches.set_context(_is_closed, self.is_rest)


@dataclasses.dataclass(frozen=True)
class _Call:
  """A call of a model_fn, with its means so far."""

  is_training: bool
  means: list[GlobalMean] = dataclasses.field(default_factory=list)


_call: ContextVar[_Call | None] = ContextVar("call of a model_fn", default=None)
_is_closed: ContextVar[bool] = ContextVar("no gradient enters a mean", default=False)


def global_mean(values: Any, weights: Any = None) -> tf.Tensor:
  """Returns the weighted mean of values over the global batch, for a loss.

  Add such means to each other and to penalties, with constant factors, as in
  `loss = global_mean(losses, mask) + 0.1 * global_mean(others) + sum(model.losses)`. The guide of
  example weights has the formulas.

  Args:
    values: tensor [batch, ...], such as a loss for each token. Octet sums it in float32, or in
      float64 if it is float64.
    weights: tensor of numbers or bools with the first axes of `values`, such as a mask; no gradient
      flows into it. A value with weight 0 does not count, not even NaN. None: each value counts 1.

  Returns:
    A scalar. The value on one core is exact only as a part of the loss.

  Raises:
    ModelFnError: the weights do not fit the values, or the call is inside of tf.cond, tf.while_loop
      or a tf.function of the model_fn.
  """
  values = tf.convert_to_tensor(values)
  if values.dtype != tf.float64:
    values = tf.cast(values, tf.float32)
  if weights is None:
    weights = tf.ones_like(values)
  weights = tf.stop_gradient(tf.cast(weights, values.dtype))
  if (missing := values.shape.rank - weights.shape.rank) > 0:
    weights = tf.reshape(weights, tf.concat([tf.shape(weights), [1] * missing], 0))
  fits = zip(weights.shape, values.shape, strict=False)
  if missing < 0 or not all(own in (1, None, other) or other is None for own, other in fits):
    raise errors.ModelFnError(
      f"global_mean: the weights have shape {weights.shape}, and the values {values.shape}: "
      "expected the same first axes."
    )
  weights = tf.broadcast_to(weights, tf.shape(values))
  total = tf.reduce_sum(tf.math.multiply_no_nan(values, weights))
  return _mean(total, tf.reduce_sum(weights))


def scope(is_training: bool) -> contextlib.AbstractContextManager[None]:
  """Makes the means in a `with` block around a call of a model_fn global."""
  return patches.set_context(_call, _Call(is_training))


def terms(loss: tf.Tensor) -> list[Term]:
  """Splits a loss for the accumulation of its gradients: its global means, then the rest."""
  of_means = [Term(factor * mean.value, mean.count) for mean, factor in _factors(loss)]
  return [*of_means, Term(loss, is_rest=True)]


def evaluated(loss: tf.Tensor) -> tuple[Any, ...]:
  """Splits the loss of an evaluation on one core into what adds up over cores and batches.

  Returns:
    (rest, (total, count), ...): float32 scalars; the rest of the loss, and the numbers of each
    global mean.
  """
  rest, pairs = loss, []
  for mean, factor in _factors(loss):
    rest -= factor * mean.value
    pairs.append((factor * mean.total, mean.count))
  return tf.nest.map_structure(lambda part: tf.cast(part, tf.float32), (rest, *pairs))


def refuse_sum() -> None:
  """Raises ModelFnError where a training sums gradients over cores and has a global mean."""
  call = _call.get()
  if call and call.means and tf.distribute.get_strategy().num_replicas_in_sync > 1:
    raise errors.ModelFnError(
      "The gradients are sums over the cores (Reduction.SUM), and the loss has a global mean, of "
      "trainer.global_mean or of a Keras loss with a mask: with it, take the mean over the cores."
    )


def _factors(loss):
  """Returns (mean, factor) of each mean that the loss depends on."""
  call = _call.get()
  if call is None or not call.means:
    return []
  factors = tf.gradients(loss, [mean.value for mean in call.means])
  # The gradient of a factor that depends on variables belongs to the rest of the loss.
  return [
    (mean, tf.stop_gradient(factor))
    for mean, factor in zip(call.means, factors, strict=True)
    if factor is not None
  ]


def _mean(total, count):
  call, context = _call.get(), tf.distribute.get_replica_context()
  if call is None:
    return tf.math.divide_no_nan(total, count)
  if tf.compat.v1.get_default_graph() is not store_run.replica_graph():
    raise errors.ModelFnError(
      "A mean over the global batch (trainer.global_mean, or a Keras loss with a mask) cannot be "
      "inside of tf.cond, tf.while_loop or a tf.function, where cores cannot wait for each other: "
      "take the mean after it."
    )
  if call.is_training and context.num_replicas_in_sync > 1:
    count = context.all_reduce(tf.distribute.ReduceOp.SUM, count)
    total *= context.num_replicas_in_sync
  value = _gate(tf.math.divide_no_nan(total, count))
  call.means.append(GlobalMean(value, total, count))
  return value


@tf.custom_gradient
def _gate(value):
  return tf.identity(value), lambda gradient: None if _is_closed.get() else gradient


@patches.replaces(*keras_internals.REDUCE_LOSS, inside=_call)
def _reduce_loss(
  original, values, sample_weight=None, mask=None, reduction="sum_over_batch_size", dtype=None
):
  """Makes the mean of a Keras loss a global mean where its divisor depends on the batch."""
  is_mean = reduction in ("mean", "mean_with_sample_weight", "sum_over_batch_size")
  is_weighted = reduction == "mean_with_sample_weight" and sample_weight is not None
  has_places = tf.convert_to_tensor(values).shape.rank != 0
  divides = is_mean and has_places and (is_weighted or mask is not None)
  if not divides or keras_internals.infers_shapes():
    return original(values, sample_weight, mask, reduction, dtype)
  total = original(values, sample_weight, mask, "sum", dtype)
  # Keras's divisors: the sum of the weights, or the number of unmasked values.
  counted = sample_weight if is_weighted else tf.ones_like(values)
  return _mean(total, tf.stop_gradient(original(counted, None, mask, "sum", dtype)))
