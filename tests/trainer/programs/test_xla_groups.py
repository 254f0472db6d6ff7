"""Evaluation and prediction on XLA devices give what virtual cores give, from one checkpoint."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long, runtimes
from tests.trainer import programs
from trainer import errors
from trainer.devices import device as device_lib
from trainer.programs import xla_groups

runtimes.require_jax()

# Two show what eight do; tests/conformance/test_xla_devices.py has eight in the gate.
DEVICES = ("cpu:2", "xla:2")
EXAMPLES = 99  # of which no batch size here is a divisor

v1 = tf.compat.v1


def metrics(labels, y, first):
  """Metrics of each kind, one of which depends on the order of the batches."""
  mean = keras.metrics.Mean()
  mean.update_state(tf.abs(labels - y))
  newest = v1.get_variable("newest", (), collections=[v1.GraphKeys.LOCAL_VARIABLES])
  return {
    "absolute_error": mean,
    "squared_error": v1.metrics.mean_squared_error(labels, y),
    "confusion": v1.metrics.mean_iou(labels > 0, y > 0, 2),
    "fading": (newest.read_value(), newest.assign(0.5 * newest + tf.reduce_sum(first))),
  }


def model_fn(features, labels, mode, params):
  """A line, whose predictions have several shapes and dtypes."""
  made = programs.line(features, labels, mode, params)
  x = features["x"]
  if mode == trainer.ModeKeys.PREDICT:
    y = made.predictions["y"]
    made.predictions = {"x": x, "y": y, "sign": y > 0, "place": tf.argmax(x, -1)}
  if mode == trainer.ModeKeys.EVAL:
    tensors = made.eval_metrics[1]
    made.eval_metrics = metrics, [tensors["labels"], tensors["y"], x[:, 0]]
  return made


@pytest.fixture(scope="module", autouse=True)
def _eight_devices():
  """A process keeps the XLA devices that it began with: eight, which other tests need."""
  device_lib.connect("xla:8")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
  path = tmp_path_factory.mktemp("model")
  programs.estimator(path, model_fn).train(programs.train_input, steps=3)
  return path


def estimator(model_dir, device="cpu", groups=None, model_fn=model_fn, **tpu):
  tpu_config = trainer.TPUConfig(steps_per_program=groups, **tpu)
  return programs.estimator(model_dir, model_fn, device, batch_size=16, tpu_config=tpu_config)


def partial_in_the_middle(params):
  """Four whole batches of a core, a partial one, and EXAMPLES more."""
  start = programs.examples(4 * params["batch_size"] + 1)(params)
  return start.concatenate(programs.examples(EXAMPLES)(params))


@pytest.mark.parametrize("groups", long.except_for([3], [None, 1, 3]))
def test_an_evaluation_counts_each_example_once(model_dir, groups):
  """With metrics of each kind, one of which depends on the order, and partial batches."""
  on_cpu, on_xla = (
    estimator(model_dir, device, groups).evaluate(partial_in_the_middle) for device in DEVICES
  )
  assert set(on_cpu) > {"absolute_error", "squared_error", "confusion", "fading"}
  assert on_xla == pytest.approx(on_cpu, rel=1e-6)


@pytest.mark.parametrize("groups", long.except_for([3], [None, 1, 3]))
def test_predictions_are_the_same_in_order_without_padding(model_dir, groups):
  on_cpu, on_xla = (
    list(estimator(model_dir, device, groups).predict(partial_in_the_middle, with_examples=True))
    for device in DEVICES
  )
  for (first, (one, _)), (second, (other, _)) in zip(on_cpu, on_xla, strict=True):
    assert first.keys() == second.keys() == {"x", "y", "sign", "place"}
    for key, value in first.items():
      np.testing.assert_allclose(second[key], value, rtol=1e-6)
      assert second[key].dtype == value.dtype
    np.testing.assert_array_equal(second["x"], other["x"])
    np.testing.assert_array_equal(one["x"], other["x"])


def test_two_predictions_at_once_do_not_mix(model_dir):
  def negative(params):
    dataset = programs.examples(EXAMPLES)(params)
    return dataset.map(lambda features, y: ({"x": -features["x"]}, y))

  made = estimator(model_dir, "xla:8")
  both = [made.predict(input_fn) for input_fn in (programs.examples(EXAMPLES), negative)]
  x, _ = programs.arrays(EXAMPLES)
  for index, (one, other) in enumerate(zip(*both, strict=True)):
    np.testing.assert_array_equal(one["x"], x[index])
    np.testing.assert_array_equal(other["x"], -x[index])


def test_results_that_exceed_the_bound_come_in_shorter_programs(model_dir):
  """A program of one group takes a stack here too, whatever its results take."""

  def groups(limit):
    made = estimator(model_dir, "xla:8", 8, stacked_input_bytes=limit)
    traced = made.trace("predict", programs.examples(EXAMPLES)).traced
    assert isinstance(traced, xla_groups.GroupProgram)
    return traced.plan.length

  # A group of 16 examples, two a core: 16 bytes of input each, and 25 of predictions.
  assert [groups(limit) for limit in (2 * 25 * 7, 2 * 25 * 3 + 1, 2 * 25)] == [7, 3, 1]


def test_an_evaluation_between_two_trainings_changes_nothing(tmp_path):
  """What an evaluation counts is its own; the training goes on from where it was."""
  values = []
  for evaluates in (False, True):
    estimator = programs.estimator(tmp_path / str(evaluates), device="xla:2")
    estimator.train(programs.train_input, steps=2)
    if evaluates:
      estimator.evaluate(programs.examples(5))
    estimator.train(programs.train_input, steps=2)
    values.append({name: each.numpy() for name, each in estimator.variables.items()})
  for name, value in values[0].items():
    np.testing.assert_array_equal(values[1][name], value, err_msg=name)


def test_a_shape_that_is_not_known_names_the_setting(model_dir):
  def positive(features, labels, mode, params):
    made = programs.line(features, labels, mode, params)
    y = made.predictions["y"]
    made.predictions = {"y": tf.boolean_mask(y, y > 0)}
    return made

  with pytest.raises(errors.SpecError, match=r"predictions: .*TPUConfig\.steps_per_program"):
    estimator(model_dir, "xla:8", 2, positive).predict(programs.examples(EXAMPLES))
