"""Variables are made once and have one name, whatever asks for them: a mode, a replica, another
run.
"""

import numpy as np
import pytest

from trainer.testing import assert_same_values, values


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_all_modes_share_variables(case, device, tmp_path):
  estimator = case.estimator(tmp_path / "model", device)
  estimator.train(case.train_input_fn, steps=2)
  names = set(estimator.variables)
  before = values(estimator)
  estimator.evaluate(case.eval_input_fn)
  list(estimator.predict(case.eval_input_fn))
  estimator.export_saved_model(tmp_path / "export")
  assert set(estimator.variables) == names
  assert_same_values(before, values(estimator))


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_names_are_those_of_one_core_and_of_a_second_run(case, device, tmp_path):
  first = case.estimator(tmp_path / "first", "cpu").train(case.train_input_fn, steps=1)
  second = case.estimator(tmp_path / "second", device).train(case.train_input_fn, steps=1)
  assert list(first.variables) == list(second.variables)


def test_initial_values_are_those_of_one_core(case, tmp_path):
  """They come from the seed and the name, not from what was drawn before."""
  one = case.estimator(tmp_path / "one", "cpu")
  eight = case.estimator(tmp_path / "eight", "cpu:8")
  for estimator in (one, eight):
    estimator.trace("train", case.train_input_fn)
  assert_same_values(values(one), values(eight))


def test_another_seed_gives_other_values(case, tmp_path):
  first = case.estimator(tmp_path / "first", tf_random_seed=1)
  second = case.estimator(tmp_path / "second", tf_random_seed=2)
  for estimator in (first, second):
    estimator.trace("train", case.train_input_fn)
  first, second = values(first), values(second)
  assert any(not np.array_equal(first[name], second[name]) for name in first)
