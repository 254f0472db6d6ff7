"""Batch normalization of images on a CPU, for the Keras layer, with fewer or longer operations.

    y = γ (x - μ) / √(σ² + ε) + β

    in training     μ and σ² are over the batch, height and width
    in inference    μ and σ² are the moving averages

Source: S. Ioffe, C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing
Internal Covariate Shift" (2015), algorithm 1. Keras computes it with about ten operations, and its
gradient with twenty, in float32 whatever the precision. This module computes the same formula.
Results differ from Keras's by rounding.

- If the number of channels suits it, TensorFlow's FusedBatchNormV3 takes a third of the time.
- With few channels, such as colours, the operations work on whole rows of an image. A last axis of
  3 is too short to vectorise. This takes half of the time.
"""

import math

import keras
import tensorflow as tf

from trainer.internals import keras_internals, patches
from trainer.tracing.cpu_kernels import switch

# FusedBatchNormV3 processes this many channels at once. With other numbers of channels than its
# multiples, bfloat16 took up to five times as long as Keras's operations.
CHANNELS = 16


@patches.replaces(keras.layers.BatchNormalization, "call", inside=switch.is_on)
def _call(keras_call, layer, inputs, training=None, mask=None):
  training = bool(training and layer.trainable)
  normalized = _way(layer, inputs, training, mask)
  if normalized is None:
    return keras_call(layer, inputs, training=training, mask=mask)
  channels = inputs.shape.as_list()[-1]
  gamma = tf.convert_to_tensor(layer.gamma) if layer.scale else tf.ones([channels])
  beta = tf.convert_to_tensor(layer.beta) if layer.center else tf.zeros([channels])
  mean, variance = (
    tf.convert_to_tensor(layer.moving_mean),
    tf.convert_to_tensor(layer.moving_variance),
  )
  outputs, batch_mean, batch_variance = normalized(
    inputs, gamma, beta, mean, variance, layer.epsilon, training
  )
  if training:
    layer.moving_mean.assign(mean * layer.momentum + batch_mean * (1 - layer.momentum))
    layer.moving_variance.assign(variance * layer.momentum + batch_variance * (1 - layer.momentum))
  return outputs


def _way(layer, inputs, training, mask):
  """Returns _in_one_operation, _by_rows, or None to use Keras's own computation."""
  if (
    mask is not None
    or keras_internals.renormalizes(layer)
    or inputs.shape.rank != 4
    or layer.axis not in (3, -1)
  ):
    return None
  shape = inputs.shape.as_list()
  if not shape[-1]:
    return None
  if (
    layer.variable_dtype != "float32"
    or inputs.dtype not in (tf.float32, tf.bfloat16)
    or inputs.dtype != layer.compute_dtype
  ):
    return None
  if training and (
    not keras_internals.has_own_moments(layer) or layer.synchronized or (_count(inputs) or 0) < 2
  ):
    return None
  if shape[-1] % CHANNELS == 0:
    return _in_one_operation
  return _by_rows if 1 < shape[-1] < CHANNELS and (shape[-2] or 0) > 1 else None


def _in_one_operation(inputs, gamma, beta, mean, variance, epsilon, training):
  """Normalizes with FusedBatchNormV3.

  Returns:
    (outputs, mean, variance). In training these are the batch's mean and variance; otherwise they
    mean nothing.
  """
  unused = tf.zeros([0])
  outputs, batch_mean, batch_variance, *_ = tf.raw_ops.FusedBatchNormV3(
    x=inputs,
    scale=gamma,
    offset=beta,
    mean=unused if training else mean,
    variance=unused if training else variance,
    epsilon=epsilon,
    is_training=training,
  )
  if training:
    count = _count(inputs)
    # The operation divides the sum of squares by n - 1, Keras by n.
    batch_variance *= (count - 1) / count
  return outputs, batch_mean, batch_variance


def _by_rows(inputs, gamma, beta, mean, variance, epsilon, training):
  """Normalizes like `_in_one_operation`, with rows of width × channels values as vectors."""
  width, channels = inputs.shape.as_list()[-2:]
  rows = tf.reshape(tf.cast(inputs, tf.float32), [-1, width * channels])

  def mean_of(rows):
    return tf.reduce_mean(tf.reshape(tf.reduce_mean(rows, 0), [width, channels]), 0)

  if training:
    mean = mean_of(rows)
    variance = mean_of(tf.math.squared_difference(rows, tf.tile(mean, [width])))
  factor = gamma * tf.math.rsqrt(variance + epsilon)
  outputs = rows * tf.tile(factor, [width]) + tf.tile(beta - mean * factor, [width])
  shape = inputs.shape if inputs.shape.is_fully_defined() else tf.shape(inputs)
  return (
    tf.ensure_shape(tf.reshape(tf.cast(outputs, inputs.dtype), shape), inputs.shape),
    mean,
    variance,
  )


def _count(inputs):
  """Returns the number of values that each mean is over (batch × height × width), or None."""
  sizes = inputs.shape[:-1]
  return math.prod(sizes.as_list()) if sizes.is_fully_defined() else None
