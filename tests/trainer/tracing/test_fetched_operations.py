"""Of a model_fn that asks for it, the function has what is fetched; all is there to look up."""

import tensorflow as tf

from trainer.internals import patches
from trainer.tracing import fetched_operations, variable_store

v1 = tf.compat.v1

# An Estimator installs them before it traces. A trace that has begun does not see them.
patches.install()


def run(model_fn):
  """Traces and runs a model_fn on one replica; returns (its function, its store)."""
  store = variable_store.VariableStore(tf.distribute.OneDeviceStrategy("/cpu:0"))

  def on_replica():
    with fetched_operations.record() as made:
      fetched_operations.run_only_fetched()
      result, fetched = model_fn()
    made.fetch(fetched)
    return tf.identity(result)

  function = tf.function(lambda: store.run(on_replica, (), tf.constant(0, tf.int64)))
  traced = function.get_concrete_function()
  traced()
  return traced, store


def values(store):
  return {name: float(variable.numpy()) for name, variable in store.variables.items()}


def test_what_is_not_fetched_is_no_part_of_the_function():
  kept = []

  def model_fn():
    w, b = v1.get_variable("w", initializer=1.0), v1.get_variable("b", initializer=1.0)
    kept.append(w.assign(tf.square(w) + 7.0).op)
    return b + 1.0, [b.assign_add(2.0)]

  traced, store = run(model_fn)
  assert values(store) == {"w": 1.0, "b": 3.0}
  types = {node.op for node in traced.function_def.node_def}
  assert not types & {"AssignVariableOp", "Square"}
  # A session may want it later.
  assert kept[0].graph.get_operation_by_name(kept[0].name) is kept[0]


def test_unordered_read_gives_the_value_at_the_start_of_step():
  def model_fn():
    w = v1.get_variable("w", initializer=1.0)
    w.assign(100.0)
    before = w.read_value()
    double = w.assign(w * 2.0)
    same = w.read_value()
    with tf.control_dependencies([double]):
      after = w.read_value()
    return before * 100.0 + same * 10.0 + after, [double]

  traced, store = run(model_fn)
  assert values(store) == {"w": 2.0}
  assert float(traced()) == 2.0 * 100.0 + 2.0 * 10.0 + 4.0


def test_reached_ignores_automatic_control_dependencies():
  made = []

  def model_fn():
    w = v1.get_variable("w", initializer=1.0)
    first, second = w.assign_add(1.0), w.assign_add(2.0)
    with tf.control_dependencies([second]):
      third = tf.no_op()
    made.extend([first.op, second.op, third])
    return tf.constant(0.0), [first, third]

  _, store = run(model_fn)
  assert values(store) == {"w": 4.0}
  first, second, third = made
  assert first in second.control_inputs  # which was added automatically
  assert second in fetched_operations.reached([third])
  assert first not in fetched_operations.reached([third])


def test_all_runs_in_a_model_fn_that_does_not_ask():
  store = variable_store.VariableStore(tf.distribute.OneDeviceStrategy("/cpu:0"))

  def on_replica():
    with fetched_operations.record() as made:
      w = v1.get_variable("w", initializer=1.0)
      w.assign(5.0)
    assert [each.type for each in made.changes()] == ["AssignVariableOp"]
    return tf.constant(0.0)

  tf.function(lambda: store.run(on_replica, (), tf.constant(0, tf.int64)))()
  assert values(store) == {"w": 5.0}
