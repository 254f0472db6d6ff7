"""What hosts that drive XLA devices together agree on; `tests.trainer.devices.test_workers` starts
such hosts.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.inputs import stacks
from trainer.pjrt import installed

try:
  installed.require()
except errors.VersionError as error:
  pytest.skip(str(error), allow_module_level=True)

from tests.trainer.pjrt import conftest
from trainer.pjrt import device_values, devices
from trainer.pjrt import program as pjrt_program
from trainer.tracing import xla_variables


def test_hosts_do_the_fewest_steps_that_any_host_has_stacked():
  asked = []

  def exchange(own):
    asked.append(own)
    return [own, [4, 3, 0][len(asked) - 1]]

  stacked = stacks.stack(tf.data.Dataset.range(10).batch(1, drop_remainder=True), 4, 1)
  reader = stacks.StackReader(stacked, lambda elements: elements, exchange)
  lengths = []
  while (stack := reader.current()) is not None:
    lengths.append(stack.left)
    stack.first += stack.left
  assert (lengths, asked) == ([4, 3], [4, 4, 2])


def test_other_batches_on_another_host_fail_in_evaluation():
  def reader(others):
    element, rows = (tf.zeros([2, 3]),), tf.constant([3, 1], tf.int64)
    stacked = stacks.stack_groups(tf.data.Dataset.from_tensors((element, rows)), 2)
    return stacks.GroupStackReader(stacked, lambda elements: elements, lambda own: [own, others])

  assert reader([[3, 1], [0, 0]]).current().left == 1
  for others in ([[3, 2], [0, 0]], None):
    with pytest.raises(errors.InputError, match="other batches on other hosts"):
      reader(others).current()


@pytest.fixture
def shared(monkeypatch):
  """Makes eight devices whose `exchange` says what another host gives."""
  monkeypatch.setattr(devices.Devices, "is_shared", property(lambda self: True))

  def connected(other):
    return dataclasses.replace(devices.connect("cpu", 8), exchange=lambda own: [own, other or own])

  return connected


def test_other_program_on_another_host_fails_before_compiling(shared):
  def compile_with(other):
    variables = xla_variables.XlaVariables(None, shared(other))
    code = conftest.of_text()
    source = pjrt_program.Source(code, "of the code", {}, lambda: code)
    return variables.compile(source, "train")

  with pytest.raises(errors.ModelFnError, match="program of train is another one on other hosts"):
    compile_with("another digest")
  assert compile_with(None).compile_seconds > 0


def test_per_device_values_come_from_devices_of_all_hosts(shared):
  """The gather of several hosts, with all devices in this process."""
  connected = shared(None)
  values = device_values.DeviceValues(connected)
  arguments = conftest.ARGUMENTS[:2]
  values.put(arguments, {name: conftest.VALUES[name] for name in ("w", "own")})
  np.testing.assert_array_equal(values.read()["own"], conftest.VALUES["own"])
  wide = dataclasses.replace(arguments[1], name="wide", shape=(2, 3))
  expected = np.arange(48, dtype=np.float32).reshape(8, 2, 3)
  values.put([wide], {"wide": expected})
  np.testing.assert_array_equal(values.read_each(["wide"])["wide"], expected)
