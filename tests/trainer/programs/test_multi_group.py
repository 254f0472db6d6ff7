"""Several groups in one program give what as many groups give that the host calls.

On one core the loop is inside of `strategy.run`, as on a TPU. On several it is around the cores.
`test_evaluation` has its properties tested for both.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.programs import multi_group

v1 = tf.compat.v1
EXAMPLES = 99  # of which no batch size here is a divisor
DEVICES = ("cpu", "cpu:2", "cpu:8")


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


@pytest.fixture(scope="module")
def pair(request, model_dir):
  """The host calls each group; three groups are one program."""
  return [estimator(model_dir, request.param, groups) for groups in (None, 3)]


@pytest.mark.parametrize("pair", long.except_for(["cpu"], DEVICES), indirect=True)
def test_an_evaluation_gives_the_same_bits(pair):
  by_host, in_program = (each.evaluate(partial_in_the_middle) for each in pair)
  assert by_host == in_program
  assert set(by_host) > {"absolute_error", "squared_error", "confusion", "fading"}
  assert by_host["squared_error"] == pytest.approx(by_host["loss"], rel=1e-6)
  assert isinstance(pair[1].trace("eval", programs.examples(99)).traced, multi_group.GroupProgram)


@pytest.mark.parametrize("pair", long.except_for(["cpu:2"], DEVICES), indirect=True)
def test_predictions_are_the_same_in_order_without_padding(pair):
  by_host, in_program = (
    list(each.predict(partial_in_the_middle, with_examples=True)) for each in pair
  )
  assert len(by_host) == EXAMPLES + 4 * 16 // pair[0].device.replicas + 1
  for (first, (one, _)), (second, (other, _)) in zip(by_host, in_program, strict=True):
    assert first.keys() == second.keys() == {"x", "y", "sign", "place"}
    for key, value in first.items():
      np.testing.assert_array_equal(second[key], value)
      assert second[key].dtype == value.dtype
    np.testing.assert_array_equal(second["x"], other["x"])
    np.testing.assert_array_equal(one["x"], other["x"])
  traced = pair[1].trace("predict", programs.examples(99)).traced
  assert isinstance(traced, multi_group.GroupProgram)


@pytest.mark.parametrize("pair", long.except_for(["cpu:2"], DEVICES), indirect=True)
def test_two_predictions_at_once_do_not_mix(pair):
  def negative(params):
    return programs.examples(EXAMPLES)(params).map(lambda features, y: ({"x": -features["x"]}, y))

  both = [pair[1].predict(input_fn) for input_fn in (programs.examples(EXAMPLES), negative)]
  x, _ = programs.arrays(EXAMPLES)
  for index, (one, other) in enumerate(zip(*both, strict=True)):
    np.testing.assert_array_equal(one["x"], x[index])
    np.testing.assert_array_equal(other["x"], -x[index])


def test_results_that_exceed_the_bound_come_in_shorter_programs(model_dir):
  def groups(limit):
    made = estimator(model_dir, groups=8, stacked_input_bytes=limit)
    traced = made.trace("predict", programs.examples(EXAMPLES)).traced
    return traced.plan.length if isinstance(traced, multi_group.GroupProgram) else 1

  # A group of 16 examples: 16 bytes of input each, and 25 of predictions.
  assert [groups(limit) for limit in (16 * 25 * 7, 16 * 25 * 3 + 1, 16 * 25)] == [7, 3, 1]


def test_a_shape_that_is_not_known_names_the_setting(model_dir):
  def positive(features, labels, mode, params):
    made = programs.line(features, labels, mode, params)
    y = made.predictions["y"]
    made.predictions = {"y": tf.boolean_mask(y, y > 0)}
    return made

  with pytest.raises(errors.SpecError, match=r"predictions: .*TPUConfig\.steps_per_program"):
    estimator(model_dir, groups=2, model_fn=positive).predict(programs.examples(EXAMPLES))


def test_other_devices_leave_it_to_the_host(model_dir):
  for kind in ("eval", "predict"):
    source = estimator(model_dir).trace(kind, programs.examples(EXAMPLES))
    assert isinstance(source.iterator, tf.data.Iterator)
