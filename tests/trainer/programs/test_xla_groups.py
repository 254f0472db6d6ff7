"""Evaluation and prediction on XLA devices give what virtual cores give, from one checkpoint."""

import numpy as np
import pytest

from tests import long, runtimes
from tests.trainer import programs
from tests.trainer.programs import test_multi_group
from trainer.programs import xla_groups

runtimes.require_jax()

# Eight, as in every other test: a process has the XLA devices that it began with.
DEVICES = ("cpu:8", "xla:8")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
  path = tmp_path_factory.mktemp("model")
  programs.estimator(path, test_multi_group.model_fn).train(programs.train_input, steps=3)
  return path


@pytest.mark.parametrize("groups", long.except_for([3], [None, 1, 3]))
def test_an_evaluation_counts_each_example_once(model_dir, groups):
  """With metrics of each kind, one of which depends on the order, and partial batches."""
  on_cpu, on_xla = (
    test_multi_group.estimator(model_dir, device, groups).evaluate(
      test_multi_group.partial_in_the_middle
    )
    for device in DEVICES
  )
  assert set(on_cpu) > {"absolute_error", "squared_error", "confusion", "fading"}
  assert on_xla == pytest.approx(on_cpu, rel=1e-6)


@pytest.mark.parametrize("groups", long.except_for([3], [None, 1, 3]))
def test_predictions_are_the_same_in_order_without_padding(model_dir, groups):
  on_cpu, on_xla = (
    list(
      test_multi_group.estimator(model_dir, device, groups).predict(
        test_multi_group.partial_in_the_middle, with_examples=True
      )
    )
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
    dataset = programs.examples(test_multi_group.EXAMPLES)(params)
    return dataset.map(lambda features, y: ({"x": -features["x"]}, y))

  estimator = test_multi_group.estimator(model_dir, "xla:8")
  both = [
    estimator.predict(input_fn)
    for input_fn in (programs.examples(test_multi_group.EXAMPLES), negative)
  ]
  x, _ = programs.arrays(test_multi_group.EXAMPLES)
  for index, (one, other) in enumerate(zip(*both, strict=True)):
    np.testing.assert_array_equal(one["x"], x[index])
    np.testing.assert_array_equal(other["x"], -x[index])


def test_results_that_exceed_the_bound_come_in_shorter_programs(model_dir):
  """A program of one group takes a stack here too, whatever its results take."""

  def groups(limit):
    made = test_multi_group.estimator(model_dir, "xla:8", 8, stacked_input_bytes=limit)
    traced = made.trace("predict", programs.examples(test_multi_group.EXAMPLES)).traced
    assert isinstance(traced, xla_groups.GroupProgram)
    return traced.plan.length

  # A group of 16 examples, two a core: 16 bytes of input each, and 25 of predictions.
  assert [groups(limit) for limit in (2 * 25 * 7, 2 * 25 * 3 + 1, 2 * 25)] == [7, 3, 1]


def test_an_evaluation_between_two_trainings_changes_nothing(tmp_path):
  """What an evaluation counts is its own; the training goes on from where it was."""
  values = []
  for evaluates in (False, True):
    estimator = programs.estimator(tmp_path / str(evaluates), device="xla:8")
    estimator.train(programs.train_input, steps=2)
    if evaluates:
      estimator.evaluate(programs.examples(5))
    estimator.train(programs.train_input, steps=2)
    values.append({name: each.numpy() for name, each in estimator.variables.items()})
  for name, value in values[0].items():
    np.testing.assert_array_equal(values[1][name], value, err_msg=name)
