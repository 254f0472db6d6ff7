"""--device=tpu is the runtime of xla:N: over XLA devices of the CPU both come to the same bits."""

import functools

import keras
import numpy as np
import pytest

from tests import fake_tpu, runtimes
from tests.conformance import cases
from trainer import testing
from trainer.devices import device as device_lib

runtimes.require_jax()

SGD = cases.minimized(functools.partial(keras.optimizers.SGD, 0.1, momentum=0.9))


def model_fn(features, labels, mode, params):
  training = mode == cases.ModeKeys.TRAIN
  x = keras.layers.Flatten()(features["image"])
  x = keras.layers.BatchNormalization()(x, training=training)
  x = keras.layers.Dropout(0.3)(x, training=training)
  return cases.spec(mode, labels, keras.layers.Dense(5)(x), SGD)


CASE = cases.Case("normed_and_dropped", model_fn, deterministic=False)


@pytest.fixture(autouse=True)
def _tpu():
  with fake_tpu.connected():
    yield


def trained(folder, device, *stops):
  for stop in stops:
    estimator = CASE.estimator(folder, device)
    estimator.train(CASE.train_input_fn, max_steps=stop)
  return estimator


def test_a_tpu_does_to_the_bit_what_xla_devices_do(tmp_path):
  """With dropout, and with statistics that each core has its own of."""
  own = trained(tmp_path / "tpu", "tpu", 4, 10)
  # Without a second Estimator, so that the tpu's second has resumed to the bit.
  other = trained(tmp_path / "xla", "xla:8", 4)
  other.train(CASE.train_input_fn, max_steps=10)
  assert (own.device.kind, own.device.replicas) == ("tpu", 8)
  testing.assert_same_values(testing.values(own), testing.values(other), tolerance=0)
  assert own.evaluate(CASE.eval_input_fn) == other.evaluate(CASE.eval_input_fn)
  for mine, theirs in zip(
    own.predict(CASE.eval_input_fn), other.predict(CASE.eval_input_fn), strict=True
  ):
    np.testing.assert_array_equal(mine["logits"], theirs["logits"])
  assert own.export_saved_model(tmp_path / "export")


@pytest.mark.long  # tests/trainer/programs/test_xla_steps.py moves one in the gate
def test_a_checkpoint_moves_to_other_devices_and_back(tmp_path):
  trained(tmp_path, "tpu", 4)
  trained(tmp_path, "cpu:8", 6)
  moved = testing.values(trained(tmp_path, "tpu", 10))
  assert moved["global_step"] == 10


def test_the_device_has_the_cores_that_jax_finds():
  device = device_lib.connect("tpu")
  assert device_lib.connect("tpu", "local") is device
  assert (device.kind, device.replicas, device.hosts) == ("tpu", 8, 1)
  assert (device.runs_by_pjrt, device.resembles_tpu) == (True, True)
  assert str(device) == "tpu (cpu), 8 replicas"  # whose chips are called cpu here
