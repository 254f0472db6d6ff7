"""The store: a name is one variable, whoever asks and how often."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.tracing import variable_store

v1 = tf.compat.v1
STEP = tf.constant(0, tf.int64)


@pytest.fixture
def store():
  return variable_store.VariableStore(tf.distribute.get_strategy(), seed=5)


def run(store, fn):
  """What fn returns in a new trace."""
  return tf.function(lambda: store.run(fn, (), STEP), autograph=False)()


WAYS = {
  "tf.Variable": lambda: tf.Variable(tf.random.normal([2, 3]), name="w"),
  "get_variable": lambda: v1.get_variable("w", [2, 3]),
  "keras layer": lambda: keras.layers.Dense(3, name="w")(tf.ones([1, 2])),
  "a callable": lambda: tf.Variable(lambda: tf.random.normal([2, 3]), name="w"),
  "a number": lambda: tf.Variable(1.5, name="w"),
  "an optimizer": lambda: keras.optimizers.SGD(name="w").iterations,
}


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in WAYS.items()])
def test_a_second_trace_gets_the_variables_of_the_first(store, make):
  def fn():
    make()
    return tf.constant(0)

  run(store, fn)
  first = dict(store.variables)
  run(store, fn)
  assert first
  assert list(store.variables) == list(first)
  assert all(store.variables[name] is first[name] for name in first)


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_values_come_from_the_seed_and_the_name(make):
  def values(seed, before=None):
    store = variable_store.VariableStore(tf.distribute.get_strategy(), seed=seed)

    def fn():
      if before:
        before()
      make()
      return tf.constant(0)

    run(store, fn)
    return {
      name: variable.numpy() for name, variable in store.variables.items() if name.startswith("w")
    }

  first, again = (
    values(1),
    values(1, before=lambda: tf.Variable(tf.random.normal([4]), name="another")),
  )
  assert first.keys() == again.keys()
  for name in first:
    np.testing.assert_array_equal(first[name], again[name])


def test_names_are_those_of_the_code(store):
  def fn():
    x = keras.layers.Dense(2)(tf.ones([1, 2]))
    keras.layers.Dense(2)(x)
    with v1.variable_scope("hidden"):
      v1.get_variable("w", [1])
    with tf.name_scope("outer"):
      tf.Variable(0.0, name="v")
    tf.Variable(0.0, name="v")
    tf.Variable(0.0, name="v")
    tf.Variable(0.0)
    return tf.constant(0)

  run(store, fn)
  assert list(store.variables) == [
    "dense/kernel",
    "dense/bias",
    "dense_1/kernel",
    "dense_1/bias",
    "hidden/w",
    "outer/v",
    "v",
    "v_1",
    "Variable",
  ]


def test_a_name_that_is_asked_for_twice_is_not_that_of_another(store):
  def fn():
    made = [tf.Variable(0.0, name=name) for name in ("v", "v_1", "v", "v_1")]
    return made[0].read_value()

  for _ in range(2):
    run(store, fn)
    assert list(store.variables) == ["v", "v_1", "v_2", "v_1_1"]


def test_other_shape_or_dtype_is_an_error_naming_the_variable(store):
  run(store, lambda: tf.Variable(tf.zeros([2, 3]), name="w").read_value())
  for value in (tf.zeros([2, 4]), tf.zeros([2, 3], tf.int32)):
    with pytest.raises(
      errors.ModelFnError,
      match=r"creates the variable w with shape .* created it "
      r"with shape \(2, 3\) and dtype float32:",
    ):
      run(store, lambda value=value: tf.Variable(value, name="w").read_value())


def test_reset_gives_the_initial_values_again(store):
  def fn():
    w = tf.Variable(tf.random.normal([3]), name="w")
    b = keras.layers.Dense(2, name="d")
    b(tf.ones([1, 2]))
    return w.read_value()

  before = run(store, fn).numpy()
  initial = {name: variable.numpy() for name, variable in store.variables.items()}
  for variable in store.variables.values():
    variable.assign(variable + 1)
  store.reset()
  assert {name: variable.numpy().tolist() for name, variable in store.variables.items()} == {
    n: v.tolist() for n, v in initial.items()
  }
  np.testing.assert_array_equal(run(store, fn), before)


def test_trainable_is_what_the_code_says(store):
  def fn():
    frozen = keras.layers.Dense(2, name="frozen")
    frozen.trainable = False
    keras.layers.Dense(2, name="free")(frozen(tf.ones([1, 2])))
    tf.Variable(0.0, trainable=False, name="count")
    return tf.constant(len(store.trainable_variables()))

  run(store, fn)
  assert [getattr(variable, "path", variable.name) for variable in store.trainable_variables()] == [
    "free/kernel",
    "free/bias",
  ]


def test_scratch_variables_are_no_part_of_the_model(store):
  run(store, lambda: store.scratch("seen").assign_add(1.0))
  assert not store.variables


def test_outside_of_a_run_variables_are_tensorflows_own(store):
  run(store, lambda: tf.Variable(0.0, name="w").read_value())
  assert variable_store.current() is None
  assert tf.Variable(3.0, name="w") is not store.variables["w"]
  assert v1.get_collection(v1.GraphKeys.GLOBAL_VARIABLES) == []


def test_a_failed_trace_leaves_nothing_behind(store):
  def fails():
    tf.Variable(0.0, name="w")
    raise RuntimeError("on purpose")

  with pytest.raises(RuntimeError, match="on purpose"):
    run(store, fails)
  assert variable_store.current() is None
  assert run(store, lambda: tf.Variable(2.0, name="v").read_value()).numpy() == 2.0


# ---------------------------------------------------- over modes and traces


def test_a_variable_whose_shape_differs_between_modes(tmp_path):
  def model_fn(features, labels, mode, params):
    width = 3 if mode == trainer.ModeKeys.TRAIN else 4
    padded = tf.pad(features["x"], [[0, 0], [0, width - 3]])
    return programs.line({"x": padded}, labels, mode, params)

  estimator = programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)
  with pytest.raises(
    errors.ModelFnError,
    match=r"creates the variable w with shape \(4,\).*created it "
    r"with shape \(3,\)",
  ):
    estimator.evaluate(programs.examples(8))


@long.ON_TWO_CORES
def test_training_on_another_input_keeps_the_optimizer(tmp_path, device):
  estimator = programs.estimator(tmp_path, device=device).train(programs.batches(24), steps=2)
  before = set(estimator.variables)
  estimator.train(programs.train_input, steps=2)
  assert set(estimator.variables) == before
  assert estimator.variables["sgd/iteration"].numpy() == 4


def test_a_model_fn_may_make_its_train_op_in_every_mode(tmp_path):
  def model_fn(features, labels, mode, params):
    loss = programs.line(features, labels, trainer.ModeKeys.EVAL, params).loss
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.05), loss)
    )

  estimator = programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)
  before = estimator.variables["w"].numpy()
  assert estimator.evaluate(programs.examples(8))["global_step"] == 1
  np.testing.assert_array_equal(estimator.variables["w"].numpy(), before)


@pytest.mark.of_tensorflows_replicas
@long.ON_TWO_CORES
def test_a_variable_by_the_name_of_its_scope_is_one_on_all_cores(tmp_path, device):
  """As metrics of TensorFlow name theirs: the name has all scopes, those of the core too."""

  def model_fn(features, labels, mode, params):
    with tf.name_scope("part") as scope:
      v1.Variable(0.0, trainable=False, name=scope)
    relevant = tf.ones_like(features["x"][:, :1], tf.int64)
    v1.metrics.average_precision_at_k(relevant, features["x"], 2)
    return programs.line(features, labels, mode, params)

  estimator = programs.estimator(tmp_path, model_fn, device=device)
  estimator.train(programs.train_input, steps=1)
  assert set(estimator.get_variable_names()) >= {"part", "w", "b"}


@pytest.mark.parametrize("may_change", [variable_store.ANY, variable_store.NOTHING])
def test_an_array_assigned_to_a_variable_is_its_initial_value(store, may_change):
  loaded = np.float32([[1.0], [2.0]])

  def fn():
    layer = keras.layers.Dense(1, name="dense")
    layer.build([None, 2])
    layer.set_weights([loaded, np.zeros(1, np.float32)])
    return layer.kernel.assign_add(tf.ones([2, 1]))

  step = tf.function(lambda: store.run(fn, (), STEP, may_change=may_change), autograph=False)
  step.get_concrete_function()
  store.reset()
  kernel = store.variables["dense/kernel"]
  np.testing.assert_array_equal(kernel, loaded)
  for _ in range(2):
    step()
  np.testing.assert_array_equal(kernel, loaded + (2 if may_change == variable_store.ANY else 0))


class _Loads(keras.layers.Layer):
  """Counts from 5 on, and in a step from 2 on."""

  def build(self, shape):
    self.total = self.add_weight(shape=[1], name="total", trainable=False)
    self.of_step = self.add_weight(shape=[1], name="of_step", trainable=False)
    self.total.assign(np.float32([5.0]))

  def call(self, x):
    self.of_step.assign(np.float32([2.0]))
    self.of_step.assign_add([1.0])
    self.total.assign_add([1.0])
    return x


@pytest.mark.parametrize("is_nested", [False, True])
def test_an_array_is_an_initial_value_in_build_and_not_in_call(store, is_nested):
  def fn():
    layer = _Loads(name="loads")
    outer = keras.layers.TimeDistributed(layer, name="outer") if is_nested else layer
    outer(tf.ones([1, 1, 1]))

  step = tf.function(lambda: store.run(fn, (), STEP, may_change=variable_store.ANY))
  step.get_concrete_function()
  store.reset()
  step()
  step()
  values = {name.rpartition("/")[2]: each.numpy() for name, each in store.variables.items()}
  assert values == {"total": [7.0], "of_step": [3.0]}


def test_an_array_of_another_shape_is_keras_error(store):
  def fn():
    layer = keras.layers.Dense(1)
    layer.build([None, 2])
    layer.kernel.assign(np.zeros([3, 1], np.float32))

  with pytest.raises(ValueError, match="must match"):
    run(store, fn)
