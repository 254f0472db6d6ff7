"""Totals of the steps, and results of the groups, of one program in a core's own variables."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.programs import core_results
from trainer.settings.kinds import Kind
from trainer.tracing import variable_store

STEP = tf.constant(0, tf.int64)


@pytest.fixture
def store():
  return variable_store.VariableStore(tf.distribute.get_strategy())


def keeper(store, results, spec):
  """A function of (index, nest) that keeps the nest."""

  def keep(index, nest):
    store.run(results.keep, (index, nest), STEP)

  return tf.function(keep, input_signature=[tf.TensorSpec([], tf.int32), spec], autograph=False)


SPEC = {
  "scores": tf.TensorSpec([2, 3], tf.float32),
  "is_rare": tf.TensorSpec([2], tf.bool),
  "ids": (tf.TensorSpec([], tf.int64),),
}


def nest(number):
  return {
    "scores": tf.fill([2, 3], float(number)),
    "is_rare": tf.constant([number % 2 == 0, True]),
    "ids": (tf.constant(2**40 + number, tf.int64),),
  }


def test_each_group_has_its_place_in_any_order(store):
  results = core_results.CoreResults(store, Kind.EVAL, groups=3, limit_bytes=1000)
  keep = keeper(store, results, SPEC)
  for index in (2, 0, 1, 0):
    keep(index, nest(index))
  found = tf.nest.map_structure(lambda variable: variable.numpy(), results.variables())
  np.testing.assert_array_equal(found["scores"][:, 0, 0], [0, 1, 2])
  np.testing.assert_array_equal(found["is_rare"][:, 0], [True, False, True])
  np.testing.assert_array_equal(found["ids"][0], 2**40 + np.arange(3))
  assert store.variables == {}


@pytest.mark.parametrize(("limit", "groups"), [(3 * 34 - 1, 2), (33, 0)])
def test_too_large_results_say_how_many_groups_fit(store, limit, groups):
  results = core_results.CoreResults(store, Kind.EVAL, groups=3, limit_bytes=limit)
  with pytest.raises(core_results.TooLarge) as raised:
    keeper(store, results, SPEC).get_concrete_function()
  assert raised.value.groups == groups
  assert store.local_variables() == []


def test_results_of_no_bytes_always_fit(store):
  results = core_results.CoreResults(store, Kind.EVAL, groups=3, limit_bytes=0)
  keeper(store, results, tf.TensorSpec([0], tf.float32)).get_concrete_function()
  assert results.variables().shape == [3, 0]


def test_inputs_of_several_shapes_share_the_store(store):
  for size in (2, 3, 2):
    results = core_results.CoreResults(store, Kind.EVAL, groups=2, limit_bytes=1000)
    keeper(store, results, tf.TensorSpec([size], tf.float32))(1, np.full(size, 5.0))
    np.testing.assert_array_equal(results.variables().numpy()[1], [5.0] * size)


@pytest.mark.parametrize(
  ("kind", "what"), [(Kind.EVAL, "eval_metrics"), (Kind.PREDICT, "predictions")]
)
def test_an_unknown_shape_is_named(store, kind, what):
  results = core_results.CoreResults(store, kind, groups=2, limit_bytes=1000)
  with pytest.raises(errors.SpecError, match=rf"{what}: the tensor .* has shape \(None,\)"):
    keeper(store, results, tf.TensorSpec([None], tf.float32)).get_concrete_function()


def adder(store, totals, *host_specs):
  """A function of (step, loss, *host tensors) that adds them."""

  def add(step, loss, *tensors):
    store.run(lambda *args: totals.add(args[0], args[1], args[2:]), (step, loss, *tensors), STEP)

  specs = [tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32), *host_specs]
  return tf.function(add, input_signature=specs, autograph=False)


def test_a_long_loop_loses_no_small_loss(store):
  totals = core_results.CoreTotals(store)
  add = adder(store, totals)
  for step, loss in enumerate([2.0**25, 1.0, 1.0, 1.0], 1):
    add(step, loss)
  loss_sum, _ = totals.sums()
  assert float(loss_sum) == 2.0**25 + 3  # float32 would drop each 1
  assert loss_sum.dtype == tf.float64


@pytest.mark.parametrize(
  ("losses", "expected"),
  [([1.0, 2.0], 0), ([1.0, np.nan, np.inf, 1.0], 12), ([-np.inf, np.nan], 11)],
)
def test_the_first_step_that_is_not_finite(store, losses, expected):
  totals = core_results.CoreTotals(store)
  add = adder(store, totals)
  for step, loss in enumerate(losses, 11):
    add(step, loss)
  assert int(totals.sums()[1]) == expected


def test_host_tensors_are_those_of_the_newest_step(store):
  totals = core_results.CoreTotals(store)
  add = adder(store, totals, tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.bool))
  add(1, 1.0, [1.0, 2.0], True)
  add(2, 1.0, [3.0, 4.0], False)
  numbers, flag = totals.host_variables()
  assert (numbers.numpy().tolist(), bool(flag)) == ([3.0, 4.0], False)
  assert len(totals.variables()) == 4
  assert store.variables == {}  # no checkpoint has them


def test_trainings_with_other_shapes_share_the_store(store):
  for size in (2, 3, 2):
    totals = core_results.CoreTotals(store)
    adder(store, totals, tf.TensorSpec([size], tf.float32))(1, 1.0, np.full(size, 5.0))
    assert totals.host_variables()[0].numpy().tolist() == [5.0] * size


def test_an_unknown_shape_of_a_host_tensor_is_named(store):
  totals = core_results.CoreTotals(store)
  with pytest.raises(errors.SpecError, match=r"host_call: the tensor .* has shape \(None,\)"):
    adder(store, totals, tf.TensorSpec([None], tf.float32)).get_concrete_function()
