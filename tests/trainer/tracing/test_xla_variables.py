"""Variables of XLA devices and of the host: who has the newest values."""

import types

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.pjrt import devices, program
from trainer.tracing import xla_variables

pytest.importorskip("jax")

COUNT = 8
VARIABLE, OWN = program.Role.VARIABLE, program.Role.OWN_VARIABLE


class Store:
  """Variables "w" and "mean", and a local one that is called "w" too."""

  def __init__(self):
    self.variables = {
      "w": tf.Variable([1.0, 2.0], name="w"),
      "mean": tf.Variable(0.5, trainable=False, name="mean"),
    }
    self.local = tf.Variable(7.0, name="w")

  def local_variables(self):
    return [self.local]


ARGUMENTS = [
  program.Argument("w", (2,), "float32", VARIABLE),
  program.Argument("mean", (), "float32", OWN),
  program.Argument("/w", (), "float32", OWN),
]


@pytest.fixture
def store():
  return Store()


@pytest.fixture
def variables(store):
  made = xla_variables.XlaVariables(store, devices.connect("cpu", COUNT))
  made.give(ARGUMENTS)
  return made


def run(variables, **values):
  """A program that gives its variables these values: [devices, ...] for statistics."""
  variables.give(ARGUMENTS)
  by_name = {each.name: each for each in ARGUMENTS}
  placement = variables.on_devices._placement
  arrays = {name: placement.put(by_name[name], np.float32(value)) for name, value in values.items()}
  variables.on_devices.replace(arrays)
  variables.mark_changed()


def on_device(variables, name):
  return variables.on_devices.read_each([name])[name][0].tolist()


def test_devices_begin_with_the_hosts_values(variables):
  assert on_device(variables, "w") == [1.0, 2.0]
  assert (on_device(variables, "mean"), on_device(variables, "/w")) == (0.5, 7.0)


def test_the_host_gets_values_and_the_mean_of_statistics(variables, store):
  run(variables, w=[3, 4], mean=np.arange(COUNT))
  assert store.variables["w"].numpy().tolist() == [1.0, 2.0]  # until a boundary
  variables.bring_to_host()
  assert store.variables["w"].numpy().tolist() == [3.0, 4.0]
  assert float(store.variables["mean"]) == 3.5


def test_devices_keep_their_own_statistics_after_a_boundary(variables):
  run(variables, mean=np.arange(COUNT))
  variables.bring_to_host()
  variables.give(ARGUMENTS)
  np.testing.assert_array_equal(variables.on_devices.read(["mean"])["mean"], np.arange(COUNT))


def test_an_assignment_of_the_host_reaches_the_devices(variables, store):
  run(variables, w=[3, 4])
  variables.bring_to_host()
  store.variables["w"].assign([5.0, 6.0])
  variables.give(ARGUMENTS)
  assert on_device(variables, "w") == [5.0, 6.0]


def test_an_assignment_of_an_equal_value_counts(variables, store):
  run(variables, mean=np.arange(COUNT))
  variables.bring_to_host()
  store.variables["mean"].assign(3.5)
  variables.give(ARGUMENTS)
  np.testing.assert_array_equal(variables.on_devices.read(["mean"])["mean"], [3.5] * COUNT)


def test_a_boundary_does_not_overwrite_the_hosts_assignment(variables, store):
  run(variables, w=[3, 4])
  variables.bring_to_host()
  run(variables, w=[9, 9])
  store.variables["w"].assign([5.0, 6.0])
  variables.bring_to_host()
  assert store.variables["w"].numpy().tolist() == [5.0, 6.0]


def test_a_variable_that_must_be_equal_is_compared(variables):
  run(variables)
  different = program.Argument("w", (2,), "float32", OWN)
  array = variables.on_devices._placement.put(
    different, np.float32([[1, 2]] * (COUNT - 1) + [[1, 3]])
  )
  variables.on_devices.replace({"w": array})
  with pytest.raises(errors.ModelFnError, match="The variable w has other values on other cores"):
    variables.bring_to_host()


def test_equal_variables_with_nan_are_equal(variables, store):
  run(variables, w=[np.nan, 1.0])
  variables.bring_to_host()
  assert np.isnan(store.variables["w"].numpy()[0])


def test_lost_values_come_back_only_when_all_are_assigned(variables, store):
  run(variables, w=[3, 4])
  variables.bring_to_host()
  variables.on_devices.mark_lost("the core melted")
  store.variables["w"].assign([5.0, 6.0])
  with pytest.raises(errors.OctetError, match="the core melted"):
    variables.give(ARGUMENTS)
  store.variables["mean"].assign(0.25)
  variables.mark_assigned()
  variables.give(ARGUMENTS)
  assert (on_device(variables, "w"), on_device(variables, "mean")) == ([5.0, 6.0], 0.25)


def test_local_variables_are_read_and_reset_apart(variables, store):
  run(variables, **{"/w": np.arange(COUNT)})
  [found] = variables.read_each([store.local])
  np.testing.assert_array_equal(found, np.arange(COUNT))
  variables.bring_to_host()
  assert float(store.local) == 7.0
  variables.reset([store.local])
  np.testing.assert_array_equal(variables.read_each([store.local])[0], np.zeros(COUNT))


@pytest.mark.parametrize(
  ("values", "expected"),
  [
    (np.float32([0.1, 0.3]), np.float32(0.2)),
    (np.float16([30000] * 8), np.float16(30000)),
    (np.array([1.0078125] * 6, ml_dtypes.bfloat16), np.array(1.0078125, ml_dtypes.bfloat16)),
    (np.int64([3, 9]), np.int64(3)),
    (np.array([True, False]), np.bool_(True)),
  ],
  ids=["float32", "float16", "bfloat16", "int64", "bool"],
)
def test_the_hosts_value_is_the_mean_of_floats(values, expected):
  found = xla_variables.mean_of(values)
  assert found.dtype == expected.dtype
  assert found == expected


def test_the_argument_of_a_variable_has_its_role_and_name(store):
  store.variables["own"] = types.SimpleNamespace(
    handle=object(), name="own:0", synchronization=tf.VariableSynchronization.ON_READ
  )
  spec = tf.TensorSpec([2], tf.float32)
  found = [
    xla_variables.argument(store, each.handle, spec)
    for each in (store.variables["w"], store.local, store.variables["own"])
  ]
  assert [(each.name, each.role) for each in found] == [
    ("w", VARIABLE),
    ("/w", VARIABLE),
    ("own", OWN),
  ]
  with pytest.raises(errors.ModelFnError, match="variable from outside of the model_fn"):
    xla_variables.argument(store, tf.Variable(1.0).handle, spec)
