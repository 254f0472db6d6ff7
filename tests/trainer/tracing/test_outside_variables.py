"""What a model_fn uses and has not made is an error that names it; tables and the like are not."""

import inspect
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.devices import device as device_lib
from trainer.internals import tensorflow_internals
from trainer.tracing import variable_store

v1 = tf.compat.v1
ModeKeys = trainer.ModeKeys
STEP = tf.constant(0, tf.int64)
X = np.ones([2, 4], np.float32)


def run(fn, device="cpu", store=None, **kwargs):
  """Traces fn on each replica; what it has uses for is thrown away."""
  strategy = device_lib.connect(device).strategy
  store = store or variable_store.VariableStore(strategy)

  def step():
    store.run(lambda: [fn(), tf.constant(0)][1], (), STEP, **kwargs)

  tf.function(step, autograph=False).get_concrete_function()
  return store


def a_variable():
  w = tf.Variable(2.0, name="scale")
  return lambda: X * w


def one_that_is_changed():
  w = tf.Variable(2.0, name="scale")
  return lambda: w.assign_add(1.0)


def one_of_v1():
  w = v1.get_variable("scale", [], initializer=v1.ones_initializer())
  return lambda: X * w


def one_in_a_branch():
  w = tf.Variable(2.0, name="scale")
  return lambda: tf.cond(tf.constant(X)[0, 0] > 0, lambda: w * 2.0, lambda: 0.0)


def one_of_a_function():
  w = tf.Variable(2.0, name="scale")
  inner = tf.function(lambda: tf.gather([w], 0))
  return tf.function(lambda: inner() + 1.0)


def one_of_a_function_that_is_traced():
  w = tf.Variable(2.0, name="scale")
  traced = tf.function(lambda: w + 1.0).get_concrete_function()
  return lambda: [traced(), w][0]  # which does not keep its variable


def a_model():
  model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3)], name="net")
  return lambda: model(X)


def a_model_without_variables():
  model = keras.Sequential([keras.layers.Dense(3)], name="net")
  return lambda: model(X)


def a_layer_of_a_model():
  dense = keras.layers.Dense(3, name="net")
  return lambda: keras.Sequential([dense])(X)


def an_optimizer():
  optimizer = keras.optimizers.Adam(name="net")
  return lambda: optimizer.learning_rate * 1.0


USES = {
  a_variable: "scale float32[], used",
  one_that_is_changed: "scale float32[], used",
  one_of_v1: "scale float32[], used",
  one_in_a_branch: "scale float32[], used",
  one_of_a_function: "scale float32[], used",
  one_of_a_function_that_is_traced: "scale float32[], used",
  a_model: "net/dense/kernel float32[4, 3], used",
  a_model_without_variables: "the layer net (Sequential), gets its variables",
  a_layer_of_a_model: "the layer net (Dense), gets its variables",
  an_optimizer: "net/learning_rate float32[], used",
}


# A message has six lines at most. Each message searches all objects of the process.
TOGETHER = (
  (a_variable, one_that_is_changed, one_of_v1, one_in_a_branch),
  (one_of_a_function_that_is_traced, a_model, an_optimizer),
  (a_model_without_variables, a_layer_of_a_model),
  (one_of_a_function,),
)


@pytest.mark.parametrize("device", ["cpu", "cpu:8"])
@pytest.mark.parametrize("makes", TOGETHER, ids=["variables", "others", "layers", "function"])
@pytest.mark.long_on_several_cores
def test_outside_variable_is_named_with_the_line_that_uses_it(makes, device):
  fns = [make() for make in makes]
  trace = lambda: [fn() for fn in fns]
  with pytest.raises(errors.ModelFnError, match=r"mine uses .*outside of it:\n") as caught:
    run(trace, device, name="mine")
  lines = str(caught.value).splitlines()
  for make in makes:
    used = re.sub(r"_\d+/", "/", re.escape(USES[make])).replace("dense", r"dense(_\d+)?")
    place = rf"  {used} \({re.escape(__file__)}:(?P<line>\d+)"
    found = [int(each["line"]) for each in (re.match(place, line) for line in lines) if each]
    # AutoGraph runs a function from another file: its line is that of the call.
    source, first = inspect.getsourcelines(trace if make is one_of_a_function else make)
    assert any(first <= line < first + len(source) for line in found), "\n".join(lines)


def test_every_use_is_tried():
  assert {make for makes in TOGETHER for make in makes} == set(USES)


def test_each_is_told_once_and_not_too_many_of_them():
  w = [tf.Variable(1.0, name=f"w{n}") for n in range(9)]
  with pytest.raises(errors.ModelFnError, match="and 3 more") as caught:
    run(lambda: [tf.add_n(w), tf.add_n(w)], "cpu:2")
  assert re.findall(r"w\d", str(caught.value)) == [f"w{n}" for n in range(6)]
  assert "trainer.model_fn_from_keras(build_model" in str(caught.value)


def test_it_is_said_too_where_the_trace_fails_for_it():
  w = tf.Variable(1.0, name="w")

  def fn():
    w.read_value()
    raise ValueError("The loss depends on none of the 0 trainable variables.")

  with pytest.raises(errors.ModelFnError, match="w float32") as caught:
    run(fn)
  assert isinstance(caught.value.__cause__, ValueError)


def a_table():
  table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer([1, 4], [2, 5]), default_value=-1
  )
  return lambda: table.lookup(tf.constant([1]))


def a_table_that_changes():
  table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
  return lambda: table.insert(tf.constant([1], tf.int64), tf.constant([2], tf.int64))


def a_vocabulary():
  layer = keras.layers.StringLookup(vocabulary=["a", "b"])
  return lambda: layer(tf.constant(["a"]))


def a_dropout():
  layer = keras.layers.Dropout(0.5)
  return lambda: layer(X, training=True)


def an_adapted_layer():
  layer = keras.layers.Normalization()
  layer.adapt(np.arange(8, dtype=np.float32).reshape(2, 4))
  return lambda: layer(X)


def an_optimizer_of_v1():
  optimizer = v1.train.AdamOptimizer()

  def fn():
    w = tf.Variable(1.0, name="w")
    return optimizer.minimize(tf.square(w), var_list=[w])

  return fn


def a_value_to_begin_with():
  pretrained = tf.Variable(3.0)
  return lambda: tf.Variable(pretrained.read_value, name="w") + 1.0


def a_constant():
  value = tf.constant(X)
  return lambda: value + 1.0


OTHERS = [
  a_table,
  a_table_that_changes,
  a_vocabulary,
  a_dropout,
  an_adapted_layer,
  an_optimizer_of_v1,
  a_value_to_begin_with,
  a_constant,
]


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
def test_what_is_no_variable_of_the_model_may_come_from_outside(make):
  fn = make()
  store = run(fn)
  run(fn, store=store)


def test_a_metric_fn_may_read_the_model_and_keeps_no_metric():
  strategy = tf.distribute.get_strategy()
  model, metrics = (variable_store.VariableStore(strategy) for _ in range(2))
  found = {}
  run(lambda: found.update(w=tf.Variable(2.0, name="w")), store=model)
  run(lambda: found["w"] + 1.0, store=metrics, beside=model)
  with pytest.raises(errors.ModelFnError, match="w float32"):
    run(lambda: found["w"] + 1.0, store=metrics)


class Kept(tf.Module):
  """Makes its variable when it is first called, and keeps it."""

  def __init__(self):
    super().__init__()
    self.w = None

  def __call__(self, x):
    if self.w is None:
      self.w = tf.Variable(2.0, name="kept")
    return x * self.w


def with_scale(scale):
  """programs.line, with the predictions scaled in some mode."""

  def model_fn(features, labels, mode, params):
    return programs.line({"x": scale(features["x"], mode)}, labels, mode, params)

  return model_fn


@pytest.mark.long_on_several_cores
def test_variable_kept_from_training_is_found_in_evaluation(tmp_path, device):
  kept = Kept()
  estimator = programs.estimator(tmp_path, with_scale(lambda x, mode: kept(x)), device)
  estimator.train(programs.train_input, steps=1)
  with pytest.raises(errors.ModelFnError, match=r"mode 'eval'.*\n  kept .*kept from an earlier"):
    estimator.evaluate(programs.examples(8))


@pytest.mark.parametrize(
  "mode", long.except_for([ModeKeys.EVAL], [ModeKeys.EVAL, ModeKeys.PREDICT])
)
def test_in_each_mode_by_itself(mode, tmp_path):
  w = tf.Variable(2.0, name="scale")
  model_fn = with_scale(lambda x, at: x * w if at == mode else x)
  estimator = programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)
  calls = {
    ModeKeys.EVAL: lambda: estimator.evaluate(programs.examples(8)),
    ModeKeys.PREDICT: lambda: list(estimator.predict(programs.examples(8))),
  }
  for each, call in calls.items():
    if each == mode:
      with pytest.raises(errors.ModelFnError, match=rf"{mode}.*outside of it:\n  scale float32"):
        call()
    else:
      call()


def test_before_anything_is_written(tmp_path):
  w = tf.Variable(2.0, name="scale")
  estimator = programs.estimator(tmp_path / "model", with_scale(lambda x, mode: x * w))
  with pytest.raises(errors.ModelFnError, match="scale float32"):
    estimator.train(programs.train_input, steps=1)
  assert not (tmp_path / "model").exists()


def test_a_build_model_that_gives_one_model_again_and_again(tmp_path):
  model = keras.Sequential([keras.Input([programs.WIDTH]), keras.layers.Dense(1)], name="net")
  of_one = trainer.model_fn_from_keras(lambda: model, "mse", "sgd")
  with pytest.raises(errors.ModelFnError, match=r"net/dense(_\d+)?/kernel"):
    programs.estimator(tmp_path, of_one).train(programs.train_input, steps=1)


def test_handles_of_variables_are_told_from_others():
  table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), -1)
  assert tensorflow_internals.is_variable_handle(tf.Variable(1.0).handle)
  assert not tensorflow_internals.is_variable_handle(table.resource_handle)
  assert not tensorflow_internals.is_variable_handle(tf.constant(1.0))
