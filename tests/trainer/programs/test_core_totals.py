"""Totals of a loop in a core's own variables."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.programs import core_totals
from trainer.tracing import variable_store

STEP = tf.constant(0, tf.int64)


@pytest.fixture
def store():
  return variable_store.VariableStore(tf.distribute.get_strategy())


def adder(store, totals, *host_specs):
  """A function of (step, loss, *host tensors) that adds them."""

  def add(step, loss, *tensors):
    store.run(lambda *args: totals.add(args[0], args[1], args[2:]), (step, loss, *tensors), STEP)

  specs = [tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32), *host_specs]
  return tf.function(add, input_signature=specs, autograph=False)


def test_a_long_loop_loses_no_small_loss(store):
  totals = core_totals.CoreTotals(store)
  add = adder(store, totals)
  for step, loss in enumerate([2.0**25, 1.0, 1.0, 1.0], 1):
    add(step, loss)
  assert float(totals.loss()) == 2.0**25 + 3  # float32 would drop each 1
  assert totals.loss().dtype == tf.float64


@pytest.mark.parametrize(
  ("losses", "expected"),
  [([1.0, 2.0], -1), ([1.0, np.nan, np.inf, 1.0], 12), ([-np.inf, np.nan], 11)],
)
def test_the_first_step_that_is_not_finite(store, losses, expected):
  totals = core_totals.CoreTotals(store)
  add = adder(store, totals)
  for step, loss in enumerate(losses, 11):
    add(step, loss)
  assert int(totals.non_finite_step()) == expected


def test_a_reset_begins_a_loop(store):
  totals = core_totals.CoreTotals(store)
  add = adder(store, totals)
  add(1, np.nan)
  totals.reset()
  add(2, 3.0)
  assert (float(totals.loss()), int(totals.non_finite_step())) == (3.0, -1)


def test_host_tensors_are_those_of_the_newest_step(store):
  totals = core_totals.CoreTotals(store)
  add = adder(store, totals, tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.bool))
  add(1, 1.0, [1.0, 2.0], True)
  add(2, 1.0, [3.0, 4.0], False)
  numbers, flag = totals.host_tensors()
  assert (numbers.numpy().tolist(), bool(flag)) == ([3.0, 4.0], False)
  assert len(totals.variables()) == 4
  assert store.variables == {}  # no checkpoint has them


def test_trainings_with_other_shapes_share_the_store(store):
  for size in (2, 3, 2):
    totals = core_totals.CoreTotals(store)
    adder(store, totals, tf.TensorSpec([size], tf.float32))(1, 1.0, np.full(size, 5.0))
    assert totals.host_tensors()[0].numpy().tolist() == [5.0] * size


def test_an_unknown_shape_is_named(store):
  totals = core_totals.CoreTotals(store)
  with pytest.raises(errors.SpecError, match=r"host_call: the tensor .* has shape \(None,\)"):
    adder(store, totals, tf.TensorSpec([None], tf.float32)).get_concrete_function()
