"""Updates that each replica makes on its own copy."""

import tensorflow as tf

from trainer.tracing import replica_updates


def test_each_replica_updates_its_own_copies():
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  with strategy.scope():
    first, second = (
      tf.Variable(
        0.0,
        synchronization=tf.VariableSynchronization.ON_WRITE,
        aggregation=tf.VariableAggregation.MEAN,
      )
      for _ in range(2)
    )

  def on_replica():
    number = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
    values = [number + 1.0, number + 10.0]
    replica_updates.update_each(
      lambda variable, value, factor: variable.assign_add(value * factor),
      [first, second],
      values,
      [tf.constant(2.0), tf.constant(3.0)],
    )

  tf.function(lambda: strategy.run(on_replica), autograph=False)()
  found = [
    [float(copy) for copy in strategy.experimental_local_results(variable)]
    for variable in (first, second)
  ]
  assert found == [[2.0, 4.0], [30.0, 33.0]]


def test_one_replica_updates_its_variables():
  variable = tf.Variable(1.0)
  replica_updates.update_each(lambda target, value: target.assign(value), [variable], [5.0])
  assert float(variable) == 5.0


def test_no_variables_are_no_error():
  replica_updates.update_each(lambda target: target.assign(1 / 0), [])
