"""Dropout that draws 8 or 16 random bits per element, for Keras layers on a CPU.

Keras draws a float32 (32 bits) per element, which takes longer than the rest of dropout. Eight bits
suffice if the rate is a multiple of 1/256, such as 0.25 or 0.5. Other rates use 16 bits, rounded to
a multiple of 1/65,536. The kept elements are divided by this rounded probability, so the expected
value equals the input.

Source: N. Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting"
(2014), section 10, the variant that scales in training.
"""

import math

import tensorflow as tf

from trainer.internals import keras_internals, patches
from trainer.tracing.cpu_kernels import switch


@patches.replaces(*keras_internals.DROPOUT, inside=switch.is_on)
def _dropout(keras_dropout, inputs, rate, noise_shape=None, seed=None):
  """Replaces the dropout of Keras's TensorFlow backend.

  Args:
    keras_dropout: the original function.
    inputs: a floating-point tensor.
    rate: float in [0, 1]: the probability that an element becomes zero.
    noise_shape: shape of the random mask, which is broadcast to the inputs. None, or a None in it,
      means the size of the inputs.
    seed: int or a keras.random.SeedGenerator.

  Returns:
    A tensor like the inputs.
  """
  bits = 8 if float(rate * 2**8).is_integer() else 16
  threshold = round(rate * 2**bits)
  if not 0 < threshold < 2**bits:
    return keras_dropout(inputs, rate, noise_shape, seed)
  seed = keras_internals.draw_seed(seed)
  kept = _random_bits(_shape(inputs, noise_shape), bits, seed) >= threshold
  scale = tf.constant(1 / (1 - threshold / 2**bits), inputs.dtype)
  return tf.where(kept, inputs * scale, tf.zeros([], inputs.dtype))


def _shape(inputs, noise_shape):
  """Returns the mask's shape as a list: ints, and scalar tensors for sizes that are not static."""
  dynamic = tf.shape(inputs)
  sizes = [
    dynamic[axis] if size is None else size for axis, size in enumerate(inputs.shape.as_list())
  ]
  return (
    sizes
    if noise_shape is None
    else [size if given is None else given for size, given in zip(sizes, noise_shape, strict=True)]
  )


def _random_bits(shape, bits, seed):
  """Returns uniform uint8 or uint16 numbers of this shape, cut from random 32-bit words."""
  count = math.prod(shape)
  words = tf.random.stateless_uniform(
    [-(-count * bits // 32)], seed, minval=None, maxval=None, dtype=tf.uint32
  )
  pieces = tf.reshape(tf.bitcast(words, tf.uint8 if bits == 8 else tf.uint16), [-1])
  return tf.reshape(pieces[:count], shape)
