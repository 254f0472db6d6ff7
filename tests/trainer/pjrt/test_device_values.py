"""Values of variables on devices: copies of the host's, and mistakes."""

import numpy as np
import pytest

from tests.trainer.pjrt import conftest
from trainer import errors
from trainer.pjrt import program

device_values = pytest.importorskip("trainer.pjrt.device_values")  # where jax is installed

VARIABLE, OWN = program.Role.VARIABLE, program.Role.OWN_VARIABLE
ALL = conftest.REPLICAS


def argument(value, role=VARIABLE, name="v"):
  """The argument of a variable with a value for one device."""
  value = np.asarray(value)
  return program.Argument(name, value.shape, value.dtype.name, role)


@pytest.fixture
def values(connected):
  return device_values.DeviceValues(connected)


def test_what_was_put_can_be_read(values, code):
  values.put(code.variables, conftest.VALUES)
  found = values.read()
  assert found.keys() == {"w", "own", "n"}
  for name, value in found.items():
    np.testing.assert_array_equal(value, conftest.VALUES[name], strict=True, err_msg=name)


VALUES = {
  "a scalar": np.int64(2**62),
  "a bool": np.bool_(True),
  "no element": np.zeros([0, 3], np.float32),
  "not contiguous": np.arange(12, dtype=np.float64).reshape(3, 4).T,
  "bfloat16": np.array([1.5, -2.0], "bfloat16"),
  "NaN": np.float32([np.nan, -np.inf]),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("role", [VARIABLE, OWN])
def test_values_of_any_shape_come_back_from_each_device(values, value, role):
  values.put([argument(value, role)], {"v": value})
  found = values.read_each(["v"])["v"]
  assert (found.shape, found.dtype) == ((ALL, *value.shape), value.dtype)
  for each in found:
    np.testing.assert_array_equal(each.astype(np.float64), value.astype(np.float64))


def test_a_value_for_each_device_stays_there(values):
  own = np.arange(ALL * 3, dtype=np.float32).reshape(ALL, 3)
  values.put([argument(own[0], OWN)], {"v": own})
  np.testing.assert_array_equal(values.read()["v"], own, strict=True)


def test_equal_objects_for_two_devices_are_no_common_memory(values):
  one = np.float32([1, 2])
  array = values._placement.put_each(argument(one, OWN), [one] * ALL)
  np.testing.assert_array_equal(device_values.read_each(array), [one] * ALL)


def test_the_host_keeps_its_copies(values):
  given = np.float32([1, 2])
  values.put([argument(given)], {"v": given})
  given[:] = -1
  found = values.read()["v"]
  np.testing.assert_array_equal(found, [1, 2])
  found[:] = 5
  np.testing.assert_array_equal(values.read()["v"], [1, 2])


@pytest.mark.parametrize(
  ("given", "message"),
  [
    ({}, "The host has no value for the variable v"),
    ({"v": np.float64([1, 2])}, r"v is float64\[2\], expected float32\[2\]"),
    ({"v": np.zeros([ALL, 2], np.float32)}, rf"v is float32\[{ALL}, 2\]"),
    ({"v": np.zeros([1, 2], np.float32)}, r"v is float32\[1, 2\]"),
  ],
)
def test_a_wrong_value_is_refused_and_the_old_one_stays(values, given, message):
  old = np.float32([3, 4])
  values.put([argument(old)], {"v": old})
  with pytest.raises(errors.SettingError, match=message):
    values.put([argument(old)], given)
  np.testing.assert_array_equal(values.read()["v"], old)


def test_a_variable_without_a_value_is_named(values):
  with pytest.raises(errors.SettingError, match="variable 'v' has no value on the devices"):
    values.arrays([argument(np.float32(1))])


def test_after_a_failure_values_come_all_at_once(values):
  one = np.float32(1)
  arguments = [argument(one, name="a"), argument(one, name="b")]
  values.put(arguments, {"a": one, "b": one})
  values.mark_lost("the core melted")
  values.mark_lost("a later error")
  assert (values.is_lost, list(values.names)) == (True, [])
  for use in (values.read, values.wait, lambda: values.arrays(arguments)):
    with pytest.raises(device_values.ExecutionError, match="the core melted"):
      use()
  values.put(arguments[:1], {"a": np.float32(2)})
  assert not values.is_lost
  assert values.read() == {"a": 2.0}
