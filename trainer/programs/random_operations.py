"""TensorFlow's random operations, computed by the device's own generator.

XLA has an operation whose algorithm the device chooses: a TPU has a generator in hardware, and XLA
uses Philox on a CPU or GPU. TensorFlow writes Philox into every program that it lowers for a CPU,
which a TPU computes slowly and with much memory. The numbers of these rules follow from the seed
alone, on devices of one kind, and differ from the numbers of TensorFlow's kernels.

A stateful operation, such as tf.random.uniform, loses its state: its numbers follow from the run's
seed, the step, the core, and the number of earlier draws in the step. A resumed training therefore
draws the numbers of an undisturbed one. XLA's own numbers would follow no seed.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.internals import tensorflow_internals

# Bits after the binary point of a uniform number below 1, which the dtype holds exactly. One more
# bit would fit, but then minval + (maxval - minval) * number would round up to maxval more often.
_UNIFORM_BITS = {tf.bfloat16: 7, tf.float16: 10, tf.float32: 23, tf.float64: 52}
# The smallest word with as many bits.
_WORDS = {tf.bfloat16: tf.uint8, tf.float16: tf.uint32, tf.float32: tf.uint32}

_SQRT_2 = math.sqrt(2)

_right = tf.bitwise.right_shift


def _draw(state, shape, dtype):
  """Returns random bits of an unsigned dtype, from a state of 128 bits: uint64 [2]."""
  algorithm = tf.random.Algorithm.AUTO_SELECT.value
  return tensorflow_internals.xla_rng_bit_generator(algorithm, state, shape, dtype=dtype).output


def _highest(state, shape, word, count):
  """Returns the `count` highest bits of random words as signed integers that are at least 0."""
  bits = _right(_draw(state, shape, word), tf.constant(word.size * 8 - count, word))
  return tf.cast(bits, tf.int64 if word == tf.uint64 else tf.int32)


def _uniform(state, shape, dtype):
  """Uniform in [0, 1)."""
  bits = _UNIFORM_BITS[dtype]
  whole = _highest(state, shape, _WORDS.get(dtype, tf.uint64), bits)
  return tf.cast(whole, dtype) * tf.constant(2.0**-bits, dtype)


def _uniform_of_a_byte(state, shape, dtype):
  """Uniform in (0, 1), of 8 bits: the odd multiples of 1 / 512."""
  odd = 2 * _highest(state, shape, tf.uint8, 8) + 1
  return tf.cast(odd, dtype) * tf.constant(1 / 512, dtype)


def _symmetric(state, shape, dtype):
  """Uniform in (-1, 1) without 0: the odd multiples of a power of 2, all exact in the dtype."""
  bits = _UNIFORM_BITS[dtype] + 1
  odd = 2 * _highest(state, shape, _WORDS.get(dtype, tf.uint64), bits) + 1
  return tf.cast(odd - 2**bits, dtype) * tf.constant(2.0**-bits, dtype)


def _of_normal(state, shape, dtype, share):
  """The middle `share` of a normal distribution, by the inverse of its distribution function."""
  wide = tf.float64 if dtype == tf.float64 else tf.float32
  uniform = _symmetric(state, shape, wide)
  return tf.cast(_SQRT_2 * tf.math.erfinv(tf.constant(share, wide) * uniform), dtype)


def _normal(state, shape, dtype):
  return _of_normal(state, shape, dtype, 1.0)


def _truncated_normal(state, shape, dtype):
  """Normal, within two standard deviations."""
  limit = tf.constant(2, dtype)
  return tf.clip_by_value(_of_normal(state, shape, dtype, math.erf(_SQRT_2)), -limit, limit)


def _full_int(state, shape, dtype):
  return tf.bitcast(_draw(state, shape, _unsigned(dtype)), dtype)


def _unsigned(dtype):
  return tf.uint32 if dtype.size == 4 else tf.uint64


def _int(state, shape, dtype, minval, maxval):
  """Uniform in [minval, maxval): the upper half of the product of 64 random bits and the span.

  The remainder would cost a TPU fifty times the arithmetic. No number is likelier than another by
  more than span / 2**64.
  """
  unsigned = _unsigned(dtype)
  first, end = (tf.bitcast(value, unsigned) for value in (minval, maxval))
  offset = _upper_half(_draw(state, shape, tf.uint64), tf.cast(end - first, tf.uint64))
  return tf.bitcast(first + tf.cast(offset, unsigned), dtype)


def _upper_half(left, right):
  """Returns the upper 64 bits of a product of two uint64."""
  half, low = tf.constant(32, tf.uint64), tf.constant(2**32 - 1, tf.uint64)
  left_high, right_high = _right(left, half), _right(right, half)
  left_low, right_low = (tf.bitwise.bitwise_and(value, low) for value in (left, right))
  # No sum overflows: (2**32 - 1)**2 + 2 * (2**32 - 1) is 2**64 - 1.
  middle = left_high * right_low + _right(left_low * right_low, half)
  other = left_low * right_high + tf.bitwise.bitwise_and(middle, low)
  return left_high * right_high + _right(middle, half) + _right(other, half)


def _multinomial(state, shape, dtype, logits, num_samples):
  """Classes by their probabilities: the largest of the logits with Gumbel noise."""
  del num_samples  # the shape has it
  wide = tf.float64 if logits.dtype == tf.float64 else tf.float32
  uniform = _uniform(state, [*shape, logits.shape[-1]], wide)
  within = uniform + tf.constant(2.0 ** -(_UNIFORM_BITS[wide] + 1), wide)  # neither 0 nor 1
  noise = -tf.math.log(-tf.math.log(within))
  return tf.argmax(tf.cast(logits, wide)[:, tf.newaxis] + noise, -1, dtype)


def _shuffled(state, shape, dtype, value):
  """The rows of a value in another order."""
  del dtype
  keys = tf.bitcast(_draw(state, shape[:1], tf.uint32), tf.int32)
  return tf.gather(value, tf.argsort(keys, stable=True))


def _key_and_counter(
  operation: tf.Operation, inputs: Sequence[tf.Tensor]
) -> Sequence[tf.Tensor] | None:
  """A rule: the state that a seed gives, as the key and the counter that random operations take."""
  del operation
  (seed,) = inputs
  state = _state_of(seed)
  return [state[:1], tf.concat([state[1:], tf.zeros([1], tf.uint64)], 0)]


def _state_of(seed):
  """Returns the state for a seed of two integers: other seeds give other states.

  Seeds of steps and cores follow each other closely, and generators take that badly. Each bit of
  the seed changes about half of the bits of the state.
  """
  low, high = tf.unstack(tf.bitcast(tf.cast(seed, tf.int64), tf.uint64))
  # Each line can be undone: so no two seeds have one state.
  low = _mixed(low + tf.constant(0x9E3779B97F4A7C15, tf.uint64))  # a state of zeros is no good one
  high = _mixed(tf.bitwise.bitwise_xor(high, low))
  return tf.stack([_mixed(low + high), high])


def _mixed(word):
  """The last part of SplitMix64, which is one-to-one.

  Source: G. Steele, D. Lea and C. Flood, "Fast Splittable Pseudorandom Number Generators" (2014),
  with the constants of D. Stafford's 13th variant.
  """
  for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
    shifted = _right(word, tf.constant(shift, tf.uint64))
    word = tf.bitwise.bitwise_xor(word, shifted) * tf.constant(factor, tf.uint64)
  return tf.bitwise.bitwise_xor(word, _right(word, tf.constant(31, tf.uint64)))


def _computed(compute, operation, state, given):
  """Returns the outputs of a draw. Dropout compares a number with its rate: a byte may suffice.

  XLA keeps the generator's numbers in memory: a byte takes a quarter of the memory.
  """
  (result,) = operation.outputs
  if compute is _uniform and _is_decided_by_a_byte(result):
    compute = _uniform_of_a_byte
  return [compute(state, result.shape.as_list(), result.dtype, **given)]


def _is_decided_by_a_byte(number):
  """Returns whether 8 bits of a traced uniform number in [0, 1) suffice.

  They do if the only use is a comparison with a constant multiple of 1 / 256, such as a rate of
  0.25.
  """
  scale, offset = 1.0, 0.0
  while number.dtype == tf.float32 and len(number.consumers()) == 1:
    (user,) = number.consumers()
    value = _known([each for each in user.inputs if each is not number])
    if value is None or any(number is output for output in number.graph.outputs):
      return False
    if user.type in ("Greater", "GreaterEqual", "Less", "LessEqual"):
      return bool(scale) and (256 * (value - offset) / scale).is_integer()
    if user.type not in ("Mul", "AddV2"):
      return False
    if user.type == "Mul":
      scale, offset = scale * value, offset * value
    else:
      offset += value
    (number,) = user.outputs
  return False


def _known(others):
  """Returns the value of an operation's only other input, if it is a known scalar."""
  if len(others) != 1:
    return None
  (other,) = others
  if other.op.type == "Sub":  # maxval - minval
    above, below = (_known([each]) for each in other.op.inputs)
    return None if above is None or below is None else above - below
  value = tf.get_static_value(other)
  return float(value) if value is not None and value.ndim == 0 else None


def _drawn(
  compute: Callable[..., tf.Tensor], operation: tf.Operation, inputs: Sequence[tf.Tensor]
) -> Sequence[tf.Tensor] | None:
  """The rule of an operation; `compute` returns its result for a state, a shape and a dtype.

  The rule does not apply if the shape is unknown, or if the program names an algorithm.
  """
  (result,) = operation.outputs
  given = _given(operation, inputs)
  algorithm = tf.get_static_value(given.pop("alg", tf.constant(0)))
  named = (tf.random.Algorithm.PHILOX.value, tf.random.Algorithm.THREEFRY.value)
  if not result.shape.is_fully_defined() or algorithm in named:
    return None
  if "seed" in given:
    state = _state_of(given.pop("seed"))
  else:
    # The second word of the counter is 0 where `_key_and_counter` made it.
    state = tf.concat([given.pop("key"), given.pop("counter")[:1]], 0)
  return _computed(compute, operation, state, given)


def _given(operation, inputs):
  """Returns the inputs by name, without the shape of the result."""
  names = (argument.name for argument in operation.op_def.input_arg)
  given: dict[str, Any] = dict(zip(names, inputs, strict=True))
  given.pop("shape", None)
  return given


def drawn(
  operation: tf.Operation,
  inputs: Sequence[tf.Tensor],
  step: tf.Tensor,
  replica: tf.Tensor,
  draws: tf.Tensor,
) -> Sequence[tf.Tensor] | None:
  """Computes the numbers of an operation in STATEFUL.

  Args:
    operation: the traced operation.
    inputs: its new inputs.
    step: int64 scalar tensor: the global step.
    replica: scalar tensor: the number of the replica.
    draws: int64 scalar tensor: the number of draws before this one in the step, below 2**32.

  Returns:
    The outputs, or None if the operation has no rule, or an unknown shape.
  """
  (result,) = operation.outputs
  compute = STATEFUL[operation.type]
  if compute is None or not result.shape.is_fully_defined():
    return None
  of_operation = tf.constant([operation.get_attr("seed"), operation.get_attr("seed2")], tf.int64)
  # Each of the two can be undone: so no two draws of an operation have one state.
  of_draw = tf.stack([step, tf.cast(replica, tf.int64) * 2**32 + draws])
  state = _state_of(tf.bitwise.bitwise_xor(tf.bitcast(_state_of(of_operation), tf.int64), of_draw))
  return _computed(compute, operation, state, _given(operation, inputs))


def _rules():
  rules = {"StatelessRandomGetKeyCounter": _key_and_counter}
  for name, compute in {
    "StatelessRandomUniformInt": _int,
    "StatelessRandomUniformFullInt": _full_int,
    "StatelessRandomUniform": _uniform,
    "StatelessRandomNormal": _normal,
    "StatelessTruncatedNormal": _truncated_normal,
  }.items():
    for version in ("", "V2"):  # the first version takes a seed, the second a key and a counter
      rules[name + version] = functools.partial(_drawn, compute)
  return {**rules, "StatelessMultinomial": functools.partial(_drawn, _multinomial)}


# Type of an operation → function of the traced operation and its new inputs. It returns the new
# outputs, or None if the operation stays unchanged.
RULES: dict[str, Callable[[tf.Operation, Sequence[tf.Tensor]], Sequence[tf.Tensor] | None]] = (
  _rules()
)
# Type of a stateful operation → the function that computes its numbers, as for `_drawn`; None if it
# has no rule.
STATEFUL: dict[str, Callable[..., tf.Tensor] | None] = {
  "Multinomial": _multinomial,
  "ParameterizedTruncatedNormal": None,
  "RandomGamma": None,
  "RandomPoissonV2": None,
  "RandomShuffle": _shuffled,
  "RandomStandardNormal": _normal,
  "RandomUniform": _uniform,
  "RandomUniformInt": _int,
  "TruncatedNormal": _truncated_normal,
}
