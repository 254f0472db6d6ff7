"""Collections: each replica's own, new in each trace; variables are in those of all replicas."""

import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer.devices import device as device_lib
from trainer.tracing import variable_store

v1 = tf.compat.v1
KEYS = v1.GraphKeys
STEP = tf.constant(0, tf.int64)

# What a model_fn adds to by itself. Every key of a program's own is like the last one.
OF_A_REPLICA = (
  KEYS.LOSSES,
  KEYS.REGULARIZATION_LOSSES,
  KEYS.UPDATE_OPS,
  KEYS.TRAIN_OP,
  KEYS.SUMMARIES,
  "my_losses",
)


@pytest.fixture
def store(device):
  strategy = device_lib.connect(device).strategy
  return variable_store.VariableStore(strategy, seed=5)


def run(store, fn):
  """[what fn returns on each replica] in a new trace; fn gives Python values."""
  seen = []

  def on_replica():
    seen.append(fn())
    return tf.constant(0)

  tf.function(lambda: store.run(on_replica, (), STEP), autograph=False).get_concrete_function()
  return seen


def meet():
  """Hands over to the next replica, as a combination of gradients does."""
  tf.distribute.get_replica_context().merge_call(lambda strategy: None)


def names(variables_):
  return [variable.name.removesuffix(":0") for variable in variables_]


@pytest.mark.of_tensorflows_replicas
@pytest.mark.parametrize("key", OF_A_REPLICA)
def test_what_a_replica_adds_is_its_own(store, key):
  def fn():
    found = list(v1.get_collection(key))
    v1.add_to_collection(key, tf.constant(1.0))
    meet()
    v1.add_to_collection(key, tf.constant(2.0))
    meet()
    values = v1.get_collection(key)
    return len(found), [tf.get_static_value(value) for value in values]

  expected = [(0, [1.0, 2.0])] * store.strategy.num_replicas_in_sync
  assert run(store, fn) == expected
  assert run(store, fn) == expected  # in a later trace
  assert v1.get_collection(key) == []


def test_process_collections_are_neither_seen_nor_changed(store):
  v1.add_to_collection("of the process", "mine")
  try:

    def fn():
      found = v1.get_collection("of the process")
      v1.get_collection_ref("of the process").append("not mine")
      with tf.init_scope():
        v1.add_to_collection("of the process", "nor this")
      return found

    assert not any(run(store, fn))
    assert v1.get_collection("of the process") == ["mine"]
  finally:
    v1.get_default_graph().clear_collection("of the process")


def test_failed_trace_leaves_the_process_collections(store):
  def fn():
    v1.add_to_collection("mine", 1)
    raise RuntimeError("on purpose")

  with pytest.raises(RuntimeError, match="on purpose"):
    run(store, fn)
  v1.add_to_collection("mine", 2)
  assert v1.get_collection("mine") == [2]
  v1.get_default_graph().clear_collection("mine")


@pytest.mark.of_tensorflows_replicas
def test_variables_join_the_collections_of_each_replica(store):
  def fn():
    v1.get_variable("a", [2])
    first = names(v1.trainable_variables())
    with v1.variable_scope("scope"):
      v1.get_variable("b", [2])
      v1.get_variable("c", [2], trainable=False, collections=["mine", KEYS.GLOBAL_VARIABLES])
      v1.get_variable("d", [2], collections=["mine"])
    meet()
    tf.Variable(1.0, name="e")
    return (
      first,
      names(v1.trainable_variables()),
      names(v1.trainable_variables("scope")),
      names(v1.global_variables()),
      names(v1.get_collection("mine")),
    )

  expected = (
    ["a"],
    ["a", "scope/b", "scope/d", "e"],
    ["scope/b", "scope/d"],
    ["a", "scope/b", "scope/c", "e"],
    ["scope/c", "scope/d"],
  )
  for _ in range(2):
    assert run(store, fn) == [expected] * store.strategy.num_replicas_in_sync


@pytest.mark.of_tensorflows_replicas
def test_variables_for_all_replicas_join_all_collections(store):
  def fn():
    w = v1.get_variable("w", [2])
    v1.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(w))
    return names(v1.global_variables())

  assert run(store, fn) == [["w", "w/Momentum"]] * store.strategy.num_replicas_in_sync


@pytest.mark.of_tensorflows_replicas
def test_regularizer_is_called_for_new_variables_only(store):
  def fn():
    with v1.variable_scope("layer", regularizer=tf.nn.l2_loss):
      v1.get_variable("w", [2])
    meet()
    with v1.variable_scope("layer", reuse=True, regularizer=tf.nn.l2_loss):
      v1.get_variable("w", [2])
    return len(v1.losses.get_regularization_losses())

  for _ in range(2):
    assert run(store, fn) == [1] * store.strategy.num_replicas_in_sync


@long.ON_TWO_CORES
def test_losses_of_a_step_do_not_depend_on_the_core_count(tmp_path, device):
  """One loss of the data, one of a regularizer, in each of three traces."""
  seen = []

  def model_fn(features, labels, mode, params):
    w = v1.get_variable(
      "w",
      [programs.WIDTH, 1],
      initializer=v1.zeros_initializer(),
      regularizer=lambda t: 0.5 * tf.reduce_sum((t - 1) ** 2),
    )
    v1.losses.mean_squared_error(labels[:, None], features["x"] @ w)
    seen.append((mode, len(v1.losses.get_losses()), len(v1.losses.get_regularization_losses())))
    loss = v1.losses.get_total_loss()
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  estimator = programs.estimator(tmp_path, model_fn, device, **programs.fixed_loops(1))
  losses = []
  keep = lambda step, metrics, _: losses.append(metrics["loss"])
  estimator.train(programs.train_input, max_steps=1, hooks=[keep])
  _, y = programs.arrays(8)
  assert losses == [pytest.approx((y**2).mean() + 1.5, rel=1e-6)]
  estimator.evaluate(programs.examples(8))
  assert set(seen) == {("train", 1, 1), ("eval", 1, 1)}
