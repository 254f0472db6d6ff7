"""Random numbers of the device's own generator: their distributions, and what they follow from."""

import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.programs import pure
from trainer.programs import functionalize

SEED = tf.TensorSpec([2], tf.int32)
COUNT = 100_000
FLOATS = [tf.float32, tf.bfloat16, tf.float16, tf.float64]


def draw(function, seed=(1, 2)):
  """The only result of a function of a seed."""
  (result,) = pure.compiled(function, SEED)(tf.constant(seed))
  return result.numpy()


def assert_distributed(values, cumulative, resolution=0.0):
  """Asserts a distribution by the test of Kolmogorov and Smirnov, which fails once in a million."""
  ordered = np.sort(values.astype(np.float64), axis=None)
  expected = cumulative(ordered)
  shares = np.arange(1, len(ordered) + 1) / len(ordered)
  limit = 2.7 / math.sqrt(len(ordered)) + resolution
  assert np.max(np.abs(shares - expected)) < limit, values.dtype


def normal_below(x):
  return (1 + tf.math.erf(np.float64(x) / math.sqrt(2)).numpy()) / 2


# A number of bfloat16 stands for all reals that are rounded to it.
RESOLUTION = {tf.bfloat16: 2**-7, tf.float16: 2**-10}


def of_each_dtype(function):
  """(dtype, what the function draws of it), for each dtype of FLOATS: one program draws all."""
  drawn = pure.compiled(lambda seed: [function([COUNT], seed, dtype=each) for each in FLOATS], SEED)
  for dtype, values in zip(FLOATS, drawn(tf.constant((1, 2))), strict=True):
    assert values.dtype == dtype
    yield dtype, values.numpy()


def test_uniform():
  for dtype, values in of_each_dtype(tf.random.stateless_uniform):
    assert values.min() >= 0, dtype
    assert values.max() < 1, dtype
    assert_distributed(values, lambda x: x, RESOLUTION.get(dtype, 0))


def test_the_upper_limit_is_never_reached():
  """With one bit more, every 2**24th number would be rounded to it."""
  values = draw(lambda seed: tf.random.stateless_uniform([4096, 4096], seed, 1.0, 2.0))
  assert values.min() >= 1
  assert values.max() < 2


def test_normal():
  for dtype, values in of_each_dtype(tf.random.stateless_normal):
    assert 4 < np.max(np.abs(values)) < 6, dtype
    assert_distributed(values, normal_below, RESOLUTION.get(dtype, 0))


def test_truncated_normal():
  below, above = normal_below(-2), normal_below(2)
  share = lambda x: (normal_below(x) - below) / (above - below)
  for dtype, values in of_each_dtype(tf.random.stateless_truncated_normal):
    assert 1.9 < np.max(np.abs(values)) <= 2, dtype
    assert_distributed(values, share, RESOLUTION.get(dtype, 0))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_integers(dtype):
  values = draw(lambda seed: tf.random.stateless_uniform([COUNT], seed, -3, 7, dtype))
  assert values.dtype == dtype.as_numpy_dtype
  shares = np.bincount(values + 3) / COUNT
  np.testing.assert_allclose(shares, np.full(10, 0.1), atol=0.005)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_integers_of_a_wide_span_are_equally_likely(dtype):
  """The remainder of as many bits would be in the lower third twice as often as above it."""
  span = 3 * 2 ** (dtype.size * 8 - 2)
  values = draw(
    lambda seed: tf.random.stateless_uniform([COUNT], seed, dtype.min, dtype.min + span, dtype)
  )
  assert_distributed(values.astype(np.float64), lambda x: (x - float(dtype.min)) / span)


@pytest.mark.parametrize("dtype", [tf.int32, tf.uint64])
def test_all_bits_of_full_integers(dtype):
  values = draw(lambda seed: tf.random.stateless_uniform([COUNT], seed, None, None, dtype))
  bits = np.unpackbits(values.view(np.uint8).reshape(COUNT, -1), axis=1)
  np.testing.assert_allclose(bits.mean(0), np.full(dtype.size * 8, 0.5), atol=0.01)


def test_categories():
  logits = tf.math.log([[0.1, 0.2, 0.7, 0.0], [0.0, 0.0, 0.0, 1.0]])
  values = draw(lambda seed: tf.random.stateless_categorical(logits, COUNT, seed, tf.int32))
  assert values.dtype == np.int32
  np.testing.assert_allclose(np.bincount(values[0]) / COUNT, [0.1, 0.2, 0.7], atol=0.005)
  assert set(values[1]) == {3}


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
def test_dropout(rate):
  values = draw(
    lambda seed: tf.nn.experimental.stateless_dropout(tf.ones([COUNT]), rate, seed=seed)
  )
  assert np.mean(values == 0) == pytest.approx(rate, abs=0.005)
  np.testing.assert_allclose(values[values != 0], 1 / (1 - rate), rtol=1e-6)


@pytest.mark.parametrize(
  "compare, dtype",
  [
    (lambda drawn: drawn >= 0.25, "u8"),
    (lambda drawn: 2.0 * drawn < 0.5, "u8"),
    (lambda drawn: drawn < 0.1, "u32"),
    (lambda drawn: (drawn, drawn >= 0.25), "u32"),
    (lambda drawn: drawn + 1.0, "u32"),
    (lambda drawn: drawn >= drawn[0], "u32"),
  ],
)
def test_dropout_draws_a_byte_where_that_decides(compare, dtype):
  function = lambda seed: compare(tf.random.stateless_uniform([64], seed))
  text = pure.compiled(function, SEED).experimental_get_compiler_ir(SEED)(stage="hlo")
  (line,) = (line for line in text.splitlines() if "algorithm=rng_default" in line)
  assert f" {dtype}[64]" in line


def test_a_byte_decides_as_often_as_a_float():
  (shares,) = pure.compiled(
    lambda seed: tf.stack(
      [
        tf.reduce_mean(
          tf.cast(tf.random.stateless_uniform([2**22], seed, low, high) < limit, float)
        )
        for low, high, limit in [(0, 1, 1 / 256), (0, 1, 0.5), (-3, 1, 0), (2, 0, 0.5)]
      ]
    ),
    SEED,
  )([1, 2])
  np.testing.assert_allclose(shares, [1 / 256, 0.5, 0.75, 0.25], atol=0.001)


def test_keras():
  def function():
    return [
      keras.random.dropout(tf.ones([COUNT]), 0.25, seed=1),
      keras.random.uniform([COUNT], -1, 3, seed=2),
      keras.random.randint([COUNT], 0, 4, seed=3),
      keras.random.truncated_normal([COUNT], seed=4),
    ]

  dropped, uniform, integers, truncated = (each.numpy() for each in pure.compiled(function)())
  assert np.mean(dropped == 0) == pytest.approx(0.25, abs=0.005)
  assert_distributed(uniform, lambda x: (x + 1) / 4)
  np.testing.assert_allclose(np.bincount(integers) / COUNT, np.full(4, 0.25), atol=0.005)
  assert np.max(np.abs(truncated)) <= 2


def test_the_first_versions_take_a_seed():
  def function(seed):
    return [
      tf.raw_ops.StatelessRandomUniform(shape=[COUNT], seed=seed),
      tf.raw_ops.StatelessRandomNormal(shape=[COUNT], seed=seed),
      tf.raw_ops.StatelessTruncatedNormal(shape=[COUNT], seed=seed),
      tf.raw_ops.StatelessRandomUniformInt(shape=[COUNT], seed=seed, minval=0, maxval=10),
      tf.raw_ops.StatelessRandomUniformFullInt(shape=[COUNT], seed=seed, dtype=tf.int32),
      tf.random.stateless_uniform([COUNT], seed),
    ]

  results = [each.numpy() for each in pure.compiled(function, SEED)(tf.constant([1, 2]))]
  uniform, normal, truncated, integers, full, second = results
  np.testing.assert_array_equal(uniform, second)
  assert_distributed(normal, normal_below)
  assert np.max(np.abs(truncated)) <= 2
  assert set(integers) == set(range(10))
  assert_distributed(full.astype(np.float64), lambda x: x / 2**32 + 0.5)


def test_numbers_follow_from_the_seed_alone():
  function = lambda seed: tf.random.stateless_normal([100], seed)
  first, again = (pure.compiled(function, SEED) for _ in range(2))
  # TensorFlow compiles one program for all tensors, but one for each list.
  seed = tf.constant([3, -4])
  np.testing.assert_array_equal(first(seed)[0], again(seed)[0])
  wide = pure.compiled(function, tf.TensorSpec([2], tf.int64))
  np.testing.assert_array_equal(first(seed)[0], wide(tf.cast(seed, tf.int64))[0])
  seeds = [tf.constant(each) for each in itertools.product((0, 1, -1), repeat=2)]
  assert len({bytes(first(each)[0].numpy()) for each in seeds}) == 9


def test_masks_of_neighbouring_steps_and_cores_are_independent():
  """The seeds of Keras's layers follow each other by 1, or by a constant, from step to step."""
  size, rate = 4096, 0.5
  seeds = [(step, core) for step in range(8) for core in range(8)]
  seeds += [(step * 0x9E3779B9 % 2**31, 0) for step in range(1, 65)]

  def function(seeds):
    return tf.map_fn(
      lambda seed: tf.cast(tf.random.stateless_uniform([size], seed) >= rate, tf.float32),
      seeds,
      fn_output_signature=tf.float32,
    )

  (masks,) = pure.compiled(function, tf.TensorSpec([len(seeds), 2], tf.int32))(tf.constant(seeds))
  assert np.mean(masks) == pytest.approx(1 - rate, abs=0.004)
  np.testing.assert_allclose(np.mean(masks, 1), 1 - rate, atol=0.05)
  correlations = np.corrcoef(masks)[~np.eye(len(seeds), dtype=bool)]
  assert np.max(np.abs(correlations)) < 6 / math.sqrt(size)
  assert np.std(correlations) == pytest.approx(1 / math.sqrt(size), rel=0.1)
  # Nor is one mask another's, moved by some places.
  rows = {tuple(row) for mask in masks.numpy() for row in np.packbits(mask > 0).reshape(-1, 16)}
  assert len(rows) == len(seeds) * size // 128


def test_the_generator_is_the_devices_own():
  function = pure.compiled(lambda seed: tf.random.stateless_normal([64], seed), SEED)
  text = function.experimental_get_compiler_ir(SEED)(stage="hlo")
  assert text.count("algorithm=rng_default") == 1
  assert "algorithm=rng_philox" not in text


def test_an_algorithm_that_the_program_names_stays():
  function = lambda seed: tf.random.stateless_uniform([5], seed, alg="philox")
  seed = tf.constant([1, 2])
  expected = tf.function(function, jit_compile=True)(seed)
  np.testing.assert_array_equal(pure.compiled(function, SEED)(seed)[0], expected)


def test_a_size_of_the_data_stays():
  def function(mask, seed):
    kept = tf.boolean_mask(tf.ones([1000]), mask)
    return tf.reduce_max(tf.random.stateless_uniform(tf.shape(kept), seed)), tf.size(kept)

  given = tf.constant([True, False] * 500)
  largest, size = pure.compiled(function, tf.TensorSpec([1000], tf.bool), SEED)(given, [1, 2])
  assert 0.9 < largest < 1
  assert size == 500


def test_operations_with_a_state_of_their_own():
  def function():
    return [
      tf.random.uniform([COUNT], -1, 3),
      tf.random.normal([COUNT]),
      tf.random.truncated_normal([COUNT]),
      tf.random.uniform([COUNT], 0, 10, tf.int32),
      tf.random.shuffle(tf.range(COUNT)),
      tf.random.categorical(tf.math.log([[0.25, 0.75]]), COUNT),
      tf.nn.dropout(tf.ones([COUNT]), 0.25),
    ]

  results = [each.numpy() for each in pure.compiled(function)()]
  uniform, normal, truncated, integers, shuffled, categories, dropped = results
  assert_distributed(uniform, lambda x: (x + 1) / 4)
  assert_distributed(normal, normal_below)
  assert np.max(np.abs(truncated)) <= 2
  np.testing.assert_allclose(np.bincount(integers) / COUNT, np.full(10, 0.1), atol=0.005)
  np.testing.assert_array_equal(np.sort(shuffled), np.arange(COUNT))
  assert_distributed(shuffled[: COUNT // 2] / COUNT, lambda x: x)
  assert np.mean(categories) == pytest.approx(0.75, abs=0.005)
  assert np.mean(dropped == 0) == pytest.approx(0.25, abs=0.005)
  for first, again in zip(results, pure.compiled(function)(), strict=True):
    np.testing.assert_array_equal(first, again)


def test_each_draw_of_a_state_of_its_own_is_another():
  """In a row, in the turns of a loop, in a branch, in a function, and after it."""

  @tf.function(autograph=False)
  def called():
    return tf.random.uniform([])

  def function():
    body = lambda i, found: (i + 1, found.write(i, tf.random.uniform([])))
    _, looped = tf.while_loop(lambda i, _: i < 5, body, (0, tf.TensorArray(tf.float32, 5)))
    branch = lambda: tf.random.uniform([])
    branched = tf.cond(looped.read(0) >= 0, branch, lambda: 0.0)
    drawn = [tf.random.uniform([]), tf.random.uniform([]), called(), called(), branched]
    return tf.concat([looped.stack(), drawn, tf.random.uniform([3])], 0)

  (numbers,) = pure.compiled(function)()
  assert len(set(numbers.numpy().tolist())) == len(numbers) == 13


@pytest.mark.parametrize(
  "draw",
  [
    lambda: tf.random.gamma([2], 1.0),
    lambda: tf.random.uniform(tf.shape(tf.where(tf.random.uniform([3]) > 0.5))),
    lambda: tf.raw_ops.ParameterizedTruncatedNormal(
      shape=[2], means=0.0, stdevs=1.0, minvals=-1.0, maxvals=1.0
    ),
  ],
  ids=["gamma", "of a size of the data", "ParameterizedTruncatedNormal"],
)
def test_what_no_seed_would_decide_is_named_with_its_place(draw):
  with pytest.raises(functionalize.ImpureError, match=rf"\({__file__}:\d+\) draws random numbers"):
    pure.compiled(draw)()
