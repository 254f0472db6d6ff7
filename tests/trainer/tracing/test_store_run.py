"""Names of a run, and the number of a replica."""

import tensorflow as tf

from trainer.tracing import store_run


def asked(names, *texts):
  return [names.unique(text) for text in texts]


def test_a_second_use_of_a_name_gets_a_number():
  names = store_run.UniqueNames()
  assert asked(names, "w", "w", "b", "w") == ["w", "w_1", "b", "w_2"]


def test_a_name_that_looks_numbered_is_never_given_twice():
  names = store_run.UniqueNames()
  found = asked(names, "w_1", "w", "w", "w_1", "w")
  assert found == ["w_1", "w", "w_2", "w_1_1", "w_3"]


def test_a_copy_goes_on_by_itself():
  names = store_run.UniqueNames()
  asked(names, "w")
  copied = names.copy()
  assert asked(copied, "w", "w") == ["w_1", "w_2"]
  assert asked(names, "w") == ["w_1"]


def test_a_single_replica_has_no_number_and_no_graph():
  assert store_run.replica_number() is None
  assert store_run.replica_graph() is None


def test_replicas_are_numbered_while_they_are_traced():
  strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
  seen = []

  def on_replica():
    seen.append(store_run.replica_number())

  tf.function(lambda: strategy.run(on_replica), autograph=False).get_concrete_function()
  assert sorted(seen) == [0, 1]
