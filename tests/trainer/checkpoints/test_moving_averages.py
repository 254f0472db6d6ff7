"""`tf.compat.v1.train.ExponentialMovingAverage` in a model_fn: first values and names."""

import pytest
import tensorflow as tf

from trainer.checkpoints import moving_averages
from trainer.tracing import variable_store

v1 = tf.compat.v1
STEP = tf.constant(0, tf.int64)


@pytest.fixture
def store():
  return variable_store.VariableStore(tf.distribute.get_strategy())


def run(store, fn):
  """Traces fn as a step of the store, and runs the step."""

  def step():
    store.run(lambda: [fn(), tf.no_op()][:0], (), STEP)

  tf.function(step, autograph=False)()


def two_averages():
  w = v1.get_variable("w", initializer=2.0)
  b = v1.get_variable("b", initializer=4.0)
  fast, slow = (v1.train.ExponentialMovingAverage(decay, name=n) for decay, n in DECAYS)
  fast.apply([w, b])
  slow.apply([w])


DECAYS = ((0.5, "fast"), (0.75, "slow"))


def test_each_average_knows_its_variable(store):
  run(store, two_averages)
  assert store.averages == {"w/fast": "w", "b/fast": "b", "w/slow": "w"}
  assert store.averages.keys() <= store.variables.keys()


def test_averages_begin_at_the_values_of_their_variables(store):
  run(store, two_averages)
  for name, value in {"w": 10.0, "b": 20.0, "w/fast": -1.0, "b/fast": -1.0, "w/slow": -1.0}.items():
    store.variables[name].assign(value)
  moving_averages.initialize(store, given=["w/slow", "w"])
  found = {name: float(store.variables[name]) for name in store.averages}
  assert found == {"w/fast": 10.0, "b/fast": 20.0, "w/slow": -1.0}


def test_an_average_without_its_variable_stays(store):
  store.averages["gone/fast"] = "gone"
  store.averages["w/fast"] = "gone"
  store.variables["w/fast"] = tf.Variable(3.0)
  moving_averages.initialize(store, given=[])
  assert float(store.variables["w/fast"]) == 3.0


def test_an_evaluation_restores_the_names_of_the_training(store):
  names = {}

  def train():
    w = v1.get_variable("w", initializer=2.0)
    v1.get_variable("fixed", initializer=1.0, trainable=False)
    average = v1.train.ExponentialMovingAverage(0.5)
    average.apply([w])
    names["train"] = average.variables_to_restore()

  def evaluate():
    v1.get_variable("w", initializer=2.0)
    v1.get_variable("fixed", initializer=1.0, trainable=False)
    names["eval"] = v1.train.ExponentialMovingAverage(0.5).variables_to_restore()

  run(store, train)
  run(store, evaluate)
  restored = {key: variable.name for key, variable in names["eval"].items()}
  assert restored == {"w/ExponentialMovingAverage": "w:0", "fixed": "fixed:0"}
  assert set(names["eval"]) <= set(names["train"])


def test_a_graph_of_a_program_has_tensorflows_names():
  with tf.Graph().as_default():
    w = v1.get_variable("w", initializer=2.0)
    average = v1.train.ExponentialMovingAverage(0.5)
    average.apply([w])
    assert average.average_name(w) == "w/ExponentialMovingAverage"
    assert set(average.variables_to_restore()) == {"w/ExponentialMovingAverage"}
