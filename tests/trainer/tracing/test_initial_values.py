"""The first value of a variable follows from the run's seed and the variable's name, and from
nothing else.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.devices import device as device_lib
from trainer.internals import tensorflow_internals
from trainer.tracing import initial_values, variable_store

v1 = tf.compat.v1
STEP = tf.constant(0, tf.int64)

# Makes a variable of this name, in the ways in which programs for tf.compat.v1 do it.
WAYS = {
  "truncated normal": lambda name: _get(name, v1.truncated_normal_initializer()),
  "with a seed": lambda name: _get(name, v1.random_normal_initializer(seed=3)),
  "a class": lambda name: _get(name, v1.random_uniform_initializer),
  "the default": lambda name: _get(name, None),
  "tf.initializers": lambda name: _get(name, tf.random_normal_initializer()),
  "a function": lambda name: _get(name, lambda shape, dtype: tf.random.normal(shape, dtype=dtype)),
  "a tensor": lambda name: v1.get_variable(name, initializer=tf.random.normal([2, 3])),
  "an initializer of Keras": lambda name: _get(name, keras.initializers.RandomNormal()),
  "a tensor of Keras's": lambda name: tf.Variable(
    keras.initializers.RandomNormal()([3]), name=name
  ),
  "keras.random": lambda name: tf.Variable(lambda: keras.random.normal([3]), name=name),
  "tf.Variable of a function": lambda name: tf.Variable(lambda: tf.random.normal([3]), name=name),
}


def _get(name, initializer):
  return v1.get_variable(name, [2, 3], initializer=initializer)


def made(way, names, seed=5):
  """A store whose variables of these names were made in this order."""
  store = variable_store.VariableStore(tf.distribute.get_strategy(), seed=seed)

  def fn():
    for name in names:
      way(name)
    return tf.constant(0)

  tf.function(lambda: store.run(fn, (), STEP), autograph=False)()
  return store


def values(store):
  return {name: variable.numpy() for name, variable in store.variables.items()}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_reset_draws_the_same_values_in_any_order(way):
  store = made(way, "ab")
  first = values(store)
  assert not np.array_equal(first["a"], first["b"])
  for other in (store, made(way, "bca")):
    tf.random.set_seed(1)
    tf.random.normal([7])
    other.reset()
    found = values(other)
    for name in first:
      np.testing.assert_array_equal(found[name], first[name], name)
  assert not np.array_equal(values(made(way, "ab", seed=6))["a"], first["a"])


def test_a_second_trace_and_a_second_replica_find_what_fits(device):
  """They look at the shape of an initial value, which may be made of another variable."""
  strategy = device_lib.connect(device).strategy
  store = variable_store.VariableStore(strategy, seed=5)

  def fn():
    first = _get("first", v1.random_normal_initializer())
    second = tf.Variable(lambda: 2 * first.read_value(), name="second")
    third = WAYS["keras.random"]("third")
    return tf.reduce_sum(first + second) + tf.reduce_sum(third)

  for _ in range(2):
    tf.function(lambda: store.run(fn, (), STEP), autograph=False)()
  for variable in store.variables.values():
    variable.assign(tf.zeros(variable.shape))
  store.reset()
  found = values(store)
  np.testing.assert_array_equal(found["second"], 2 * found["first"])
  assert found["first"].any()
  assert found["third"].any()


def test_what_is_not_known_before_the_step_is_no_initial_value(tmp_path):
  def model_fn(features, labels, mode, params):
    tf.Variable(tf.reduce_mean(features["x"], 0), name="mean")
    return programs.line(features, labels, mode, params)

  with pytest.raises(
    errors.ModelFnError,
    match="The initial value of the variable mean is a tensor .* pass a function",
  ):
    programs.estimator(tmp_path, model_fn).train(programs.train_input, max_steps=1)


def test_initial_values_ignore_input_draws_and_core_count(tmp_path):
  def begin(folder, names, draws, device="cpu"):
    def model_fn(features, labels, mode, params):
      outputs = [tf.linalg.matvec(features["x"], WAYS["truncated normal"](name)) for name in names]
      loss = tf.reduce_mean(tf.add_n(outputs))
      optimizer = v1.train.GradientDescentOptimizer(0.1)
      return trainer.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    def input_fn(params):
      for _ in range(draws):
        tf.random.uniform([])
      return programs.train_input(params)

    estimator = programs.estimator(tmp_path / folder, model_fn, device)
    estimator.train(input_fn, max_steps=1)
    reader = tf.train.load_checkpoint(estimator.checkpoint_path(0))
    return reader.get_tensor("a"), reader.get_tensor("b")

  first = begin("first", "ab", draws=0)
  np.testing.assert_array_equal(begin("second", "ba", draws=2), first)
  np.testing.assert_array_equal(begin("third", "ab", draws=1, device="cpu:2"), first)


def test_only_a_value_that_draws_costs_the_kernels(monkeypatch):
  """A large model has hundreds of variables, and an evaluation resets those of its metrics."""
  cleared, clear = [], tensorflow_internals.clear_kernels
  monkeypatch.setattr(
    tensorflow_internals, "clear_kernels", lambda: (cleared.append("kernels"), clear())
  )
  of_keras = initial_values.InitialValue(lambda: keras.random.normal([2]), "c", 3)
  counted = initial_values.InitialValue(lambda: tf.zeros([2]), "b", 3)
  for _ in range(2):
    counted()
    of_keras()
  assert not cleared
  # Kernels that have drawn do not matter: the values are those of a process that has drawn nothing.
  drawn = [
    initial_values.InitialValue(lambda: tf.random.normal([2], seed=5), "a", 3)() for _ in range(2)
  ]
  clear()
  drawn.append(initial_values.InitialValue(lambda: tf.random.normal([2], seed=5), "a", 3)())
  np.testing.assert_array_equal(drawn[0], drawn[1])
  np.testing.assert_array_equal(drawn[0], drawn[2])
  assert len(cleared) == 3


@pytest.mark.parametrize("value", [1.5, np.arange(3), tf.constant([2.0])])
def test_a_value_is_given_as_it_is(value):
  initial_value = initial_values.InitialValue(value, "a", 3)
  assert initial_value.for_tensorflow() is value
  assert initial_value() is value
