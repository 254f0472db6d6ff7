"""Keras's state during a trace: names start anew, precision holds, random numbers follow seed,
step and replica.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainer.tracing import variable_store


def run(fn, *, strategy=None, seed=1, step=0, precision="float32"):
  """Per-replica results of fn in a new store."""
  strategy = strategy or tf.distribute.get_strategy()
  store = variable_store.VariableStore(strategy, precision, seed)

  @tf.function(autograph=False)
  def traced(step):
    return store.run(fn, (), step)

  results = strategy.experimental_local_results(traced(tf.constant(step, tf.int64)))
  return [result.numpy() for result in results], store


def dropped():
  return keras.layers.Dropout(0.5)(tf.ones([64]), training=True)


def test_seed_generator_state_begins_equal_in_every_trace():
  values = [
    variable.numpy().tolist() for _ in range(2) for variable in run(dropped)[1].local_variables()
  ]
  assert len(values) == 2
  assert values[0] == values[1]


def test_layers_are_numbered_from_the_start_in_each_trace():
  keras.layers.Dense(1)  # which counts outside
  for _ in range(2):
    _, store = run(lambda: keras.layers.Dense(2)(tf.ones([1, 2])))
    assert list(store.variables) == ["dense/kernel", "dense/bias"]


def test_the_state_outside_is_as_it_was():
  before = keras.layers.Dense(1).name
  run(lambda: keras.layers.Dense(2)(tf.ones([1, 2])), precision="mixed_bfloat16")
  number = int(before.rpartition("_")[2]) if before[-1].isdigit() else 0
  assert keras.layers.Dense(1).name == f"dense_{number + 1}"
  assert keras.config.dtype_policy().name == "float32"


def test_the_state_outside_is_as_it_was_after_an_error():
  def fails():
    raise RuntimeError("on purpose")

  with pytest.raises(RuntimeError, match="on purpose"):
    run(fails, precision="mixed_bfloat16")
  assert keras.config.dtype_policy().name == "float32"


def test_precision_applies_to_computation_not_to_variables():
  dtypes = []

  def fn():
    y = keras.layers.Dense(2)(tf.ones([1, 2]))
    dtypes.append(y.dtype)
    return tf.cast(y, tf.float32)

  _, store = run(fn, precision="mixed_bfloat16")
  assert dtypes == [tf.bfloat16]
  assert {variable.dtype for variable in store.variables.values()} == {tf.float32}


def test_random_numbers_are_those_of_the_seed_and_the_step():
  masks = {key: run(dropped, seed=key[0], step=key[1])[0][0] for key in [(1, 0), (1, 1), (2, 0)]}
  np.testing.assert_array_equal(masks[1, 0], run(dropped, seed=1, step=0)[0][0])
  assert not np.array_equal(masks[1, 0], masks[1, 1])
  assert not np.array_equal(masks[1, 0], masks[2, 0])


def test_replicas_draw_numbers_of_their_own():
  results, _ = run(
    dropped, strategy=tf.distribute.MirroredStrategy([f"/cpu:{index}" for index in range(8)])
  )
  assert len({result.tobytes() for result in results}) == 8


def test_layers_and_uses_of_a_layer_draw_different_numbers():
  def fn():
    layer = keras.layers.Dropout(0.5)
    x = tf.ones([64])
    return tf.stack(
      [
        layer(x, training=True),
        layer(x, training=True),
        keras.layers.Dropout(0.5)(x, training=True),
      ]
    )

  masks = run(fn)[0][0]
  assert len({mask.tobytes() for mask in masks}) == 3


def test_a_seed_that_the_layer_was_given_is_kept():
  def fn():
    return keras.layers.Dropout(0.5, seed=3)(tf.ones([64]), training=True)

  np.testing.assert_array_equal(run(fn, seed=1)[0][0], run(fn, seed=2)[0][0])


def test_an_initializer_with_a_seed_is_kept():
  def fn(seed):
    layer = keras.layers.Dense(4, kernel_initializer=keras.initializers.GlorotUniform(seed=seed))
    return layer(tf.ones([1, 4]))

  np.testing.assert_array_equal(run(lambda: fn(3), seed=1)[0][0], run(lambda: fn(3), seed=2)[0][0])
  assert not np.array_equal(
    run(lambda: fn(None), seed=1)[0][0], run(lambda: fn(None), seed=2)[0][0]
  )
