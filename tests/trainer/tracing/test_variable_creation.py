"""The name and the kind of a variable, by the call that asks for it."""

import pytest
import tensorflow as tf

from trainer import errors
from trainer.tracing import initial_values, variable_creation

v1 = tf.compat.v1


@pytest.mark.parametrize(
  ("scopes", "name", "expected"),
  [
    ([], "w", "w"),
    ([], None, "Variable"),
    (["a", "b"], "w", "a/b/w"),
    (["a"], None, "a/Variable"),
    (["a"], "b/w/", "b/w"),  # a whole scope
  ],
)
def test_a_name_has_the_scopes_of_the_model_fn(scopes, name, expected):
  with tf.Graph().as_default(), tf.name_scope("model_fn"):
    with tf.name_scope("/".join(scopes) + "/" if scopes else "model_fn/"):
      found = variable_creation.path(name)
  assert found == expected


@pytest.mark.parametrize(
  ("name", "kwargs", "expected"),
  [
    ("w", {}, False),
    ("w", {"collections": None}, False),
    ("w", {"collections": [v1.GraphKeys.GLOBAL_VARIABLES]}, False),
    ("w", {"collections": [v1.GraphKeys.LOCAL_VARIABLES, "mine"]}, True),
    ("dropout/seed_generator_state", {}, True),
    ("seed_generator_state/w", {}, False),
  ],
)
def test_checkpoints_leave_out_local_variables(name, kwargs, expected):
  assert variable_creation.is_local(name, kwargs) is expected


def test_a_scratch_scope_makes_all_variables_local():
  with variable_creation.scratch_scope():
    assert variable_creation.is_local("w", {})
  assert not variable_creation.is_local("w", {})


def zero():
  return initial_values.InitialValue(0.0, "w", seed=1)


@pytest.mark.parametrize(
  ("kwargs", "synchronization"),
  [
    ({"trainable": False, "dtype": tf.float32}, "ON_READ"),
    ({"trainable": False, "dtype": tf.int64}, "AUTO"),
    ({"trainable": True, "dtype": tf.float32}, "AUTO"),
    ({"trainable": None, "dtype": tf.float32}, "AUTO"),
    ({"trainable": False, "dtype": None}, "AUTO"),
    ({"trainable": False, "dtype": tf.float32, "colocate_with": object()}, "AUTO"),
  ],
)
def test_an_untrained_float_is_a_statistic(kwargs, synchronization):
  seen = {}
  variable_creation.create(seen.update, "w", zero(), dict(kwargs, name="x"))
  automatic = tf.VariableSynchronization.AUTO
  assert seen.get("synchronization", automatic).name == synchronization


def test_variables_that_replicas_change_alike_are_no_statistics():
  seen = {}
  with variable_creation.changed_alike_scope():
    variable_creation.create(seen.update, "w", zero(), {"trainable": False, "dtype": "float32"})
  assert "synchronization" not in seen


@pytest.mark.parametrize(
  ("value", "dtype", "message"),
  [
    (lambda: tf.zeros([3, 2]), None, r"w with shape \(3, 2\) and dtype float32"),
    (tf.zeros([2, 3], tf.float64), None, "dtype float64. An earlier call"),
    (1, tf.float32, r"shape \(\) and dtype float32"),
  ],
)
def test_another_shape_or_dtype_is_told_with_both(value, dtype, message):
  variable = tf.Variable(tf.zeros([2, 3]))
  kwargs = {"initial_value": value, "dtype": dtype}
  with pytest.raises(errors.ModelFnError, match=message):
    variable_creation.require_same(variable, "w", None, kwargs)


@pytest.mark.parametrize(
  "value", [lambda: tf.ones([2, 3]), [[1.0] * 3] * 2], ids=["function", "list"]
)
def test_the_same_shape_and_dtype_are_the_same_variable(value):
  kwargs = {"initial_value": value, "dtype": None}
  variable_creation.require_same(tf.Variable(tf.zeros([2, 3])), "w", None, kwargs)
