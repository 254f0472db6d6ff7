"""Results of the groups of one program, in a core's own variables."""

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
  assert results.bytes_of_group == 6 * 4 + 2 * 1 + 8
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
