"""Random numbers for augmentation, a function of the run's seed, the epoch and the example.

    draw = Draws(base_seed(), epochs, examples)       # inside a map over batches
    flip = draw(1)[:, 0] < 0.5                         # one number for each example of the batch

The numbers of an example in an epoch do not change with the number of threads, the batch size, the
order of the examples, or a restart. A few vector operations draw them for a whole batch. A
stateless generator for each example would cost more than the augmentation.

The generator is SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number
Generators", OOPSLA 2014), used as a hash.
"""

import tensorflow as tf

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_FLOAT_BITS = 24  # of a float32's significand


def base_seed() -> tf.Tensor:
  """Draws the seed of a dataset (int64 scalar) from the seed of tf.random.set_seed."""
  return tf.random.uniform([], maxval=2**62, dtype=tf.int64)


class Draws:
  """Uniform random numbers for a batch of examples.

  Args:
    seed: int64 scalar, see `base_seed`.
    epochs: int64 [b], the epoch of each example.
    examples: int64 [b], the ID of each example.
  """

  def __init__(self, seed: tf.Tensor, epochs: tf.Tensor, examples: tf.Tensor) -> None:
    of_seed = _mix(tf.cast(seed, tf.uint64) + _constant(_GOLDEN))
    state = _mix(of_seed ^ tf.cast(epochs, tf.uint64))
    self._state = _mix(state ^ tf.cast(examples, tf.uint64))
    # Not epoch 0's seed: an example's number would then reveal its draws in the first epoch.
    self._of_example = _mix(_mix(of_seed + _constant(_GOLDEN)) ^ tf.cast(examples, tf.uint64))
    self._epochs = epochs
    self._drawn = 0

  def __call__(self, count: int) -> tf.Tensor:
    """Returns the next `count` numbers of each example: float32 [b, count] in [0, 1)."""
    steps = tf.range(self._drawn + 1, self._drawn + 1 + count, dtype=tf.int64)
    self._drawn += count
    bits = _mix(self._state[:, tf.newaxis] + tf.cast(steps, tf.uint64) * _constant(_GOLDEN))
    top = tf.bitwise.right_shift(bits, _constant(64 - _FLOAT_BITS))
    return tf.cast(tf.cast(top, tf.int64), tf.float32) * 2.0**-_FLOAT_BITS

  def alternate(self) -> tf.Tensor:
    """Returns bool [b]: half of the examples have True, and each has the other value next epoch."""
    odd = tf.cast(tf.bitwise.bitwise_and(self._of_example, _constant(1)), tf.int64)
    return tf.equal((odd + self._epochs) % 2, 1)


def _mix(bits):
  bits = (bits ^ tf.bitwise.right_shift(bits, _constant(30))) * _constant(_FIRST)
  bits = (bits ^ tf.bitwise.right_shift(bits, _constant(27))) * _constant(_SECOND)
  return bits ^ tf.bitwise.right_shift(bits, _constant(31))


def _constant(value):
  return tf.constant(value, tf.uint64)
