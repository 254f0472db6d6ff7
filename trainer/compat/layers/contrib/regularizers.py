"""Regularizers and initializers of tf.contrib.layers."""

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
  """Returns a function of weights: scale · sum(w²) / 2; None for a scale of 0."""
  return _scaled(scale, scope or "l2_regularizer", tf.nn.l2_loss)


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
  """Returns a function of weights: scale · sum(|w|); None for a scale of 0."""
  return _scaled(scale, scope or "l1_regularizer", lambda w: tf.reduce_sum(tf.abs(w)))


def l1_l2_regularizer(
  scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Callable[[Any], Any]:
  """Returns the sum of both."""
  return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(
  regularizer_list: Sequence[Callable], scope: str | None = None
) -> Callable[[Any], Any] | None:
  """Returns a function of weights: the sum of several regularizers."""
  kept = [regularizer for regularizer in regularizer_list if regularizer is not None]
  if not kept:
    return None

  def regularize(weights: Any) -> Any:
    with v1.name_scope(scope, "sum_regularizer", [weights]):
      found = [loss for loss in (regularizer(weights) for regularizer in kept) if loss is not None]
      return tf.add_n(found) if found else None

  return regularize


def apply_regularization(regularizer: Callable, weights_list: Sequence[Any] | None = None) -> Any:
  """Returns the sum of a regularizer over weights, and adds it to REGULARIZATION_LOSSES."""
  if weights_list is None:
    weights_list = v1.get_collection(v1.GraphKeys.WEIGHTS)
  penalties = [regularizer(weights) for weights in weights_list]
  total = tf.add_n([0.0 if penalty is None else penalty for penalty in penalties] or [0.0])
  v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, total)
  return total


def _scaled(scale: float, scope: str, norm: Callable[[Any], Any]) -> Callable[[Any], Any]:
  if isinstance(scale, numbers.Integral):
    raise ValueError(f"scale cannot be an integer: {scale}")
  if isinstance(scale, numbers.Real) and scale < 0:
    raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}")
  if isinstance(scale, numbers.Real) and scale == 0:
    return lambda weights: None

  def regularize(weights: Any) -> tf.Tensor:
    with v1.name_scope(scope, values=[weights]):
      factor = tf.convert_to_tensor(scale, weights.dtype.base_dtype)
      return factor * norm(tf.convert_to_tensor(weights))

  return regularize


def xavier_initializer(
  uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Callable:
  """Returns the initializer of Glorot and Bengio."""
  return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
  factor: float = 2.0,
  mode: str = "FAN_IN",
  uniform: bool = False,
  seed: int | None = None,
  dtype: Any = tf.float32,
) -> Callable:
  """Returns an initializer with variance factor / n. mode selects n: FAN_IN, FAN_OUT or FAN_AVG."""
  if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
    raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")

  def initialize(shape: Sequence[int], dtype: Any = dtype, partition_info: Any = None) -> tf.Tensor:
    del partition_info
    shape = [int(size) for size in shape]
    fan_in = float(shape[-2]) if len(shape) > 1 else float(shape[-1])
    fan_out = float(shape[-1])
    for size in shape[:-2]:
      fan_in *= size
      fan_out *= size
    count = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}[mode]
    if uniform:
      limit = math.sqrt(3.0 * factor / count)
      return v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
    # Truncation reduces the deviation of a normal distribution: the factor 1.3 compensates.
    return v1.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / count), dtype, seed=seed)

  return initialize
