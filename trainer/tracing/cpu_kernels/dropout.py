"""Dropout that draws 8 or 16 random bits for an element, for Keras on a CPU.

Keras draws a float32 of 32 bits for each, which takes longer than all else in dropout. A byte is as
good where the rate is a multiple of 1/256, such as 0.25 or 0.5. Other rates get 16 bits, and are
rounded to a multiple of 1/65,536; what is kept is divided by the share that is kept in fact, so
that the expected value is that of the input.

N. Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting" (2014),
section 10, where the scaling is done in training.
"""

import contextlib
import contextvars
import math

import tensorflow as tf

from trainer.internals import keras_internals, patches

_is_used = contextvars.ContextVar("dropout of 8 or 16 bits", default=False)


def use() -> contextlib.AbstractContextManager[None]:
  """Inside, the dropout of a traced Keras layer is this one."""
  return patches.set_context(_is_used, True)


@patches.replaces(*keras_internals.DROPOUT)
def _dropout(keras_dropout, inputs, rate, noise_shape=None, seed=None):
  """Takes the place of the backend's dropout.

  Args:
    keras_dropout: the backend's.
    inputs: a floating-point tensor.
    rate: float in 0..1, the share that becomes zero.
    noise_shape: of what is drawn, which is broadcast to the inputs; None, or None in it, for their
      own sizes.
    seed: int or a keras.random.SeedGenerator.
  """
  if not _is_used.get():
    return keras_dropout(inputs, rate, noise_shape, seed)
  bits = 8 if float(rate * 2**8).is_integer() else 16
  threshold = round(rate * 2**bits)
  if not 0 < threshold < 2**bits:
    return keras_dropout(inputs, rate, noise_shape, seed)
  seed = keras_internals.draw_seed(seed)
  kept = _random_bits(_shape(inputs, noise_shape), bits, seed) >= threshold
  scale = tf.constant(1 / (1 - threshold / 2**bits), inputs.dtype)
  return tf.where(kept, inputs * scale, tf.zeros([], inputs.dtype))


def _shape(inputs, noise_shape):
  """A list of ints; of scalars where a size is not known before the function runs."""
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
  """uint8 or uint16 of this shape, uniform: cut from random words of 32 bits."""
  count = math.prod(shape)
  words = tf.random.stateless_uniform(
    [-(-count * bits // 32)], seed, minval=None, maxval=None, dtype=tf.uint32
  )
  pieces = tf.reshape(tf.bitcast(words, tf.uint8 if bits == 8 else tf.uint16), [-1])
  return tf.reshape(pieces[:count], shape)
