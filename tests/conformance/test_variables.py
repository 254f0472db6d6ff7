"""Variables are made once and have one name, whatever asks for them: a mode, a replica, another
run.
"""

import numpy as np
import pytest

from tests import long
from tests.conformance import cases
from trainer.checkpoints import directory, reader
from trainer.testing import assert_same_values, values


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_all_modes_share_variables(case, trained, tmp_path):
  names = set(trained.variables)
  before = values(trained)
  trained.evaluate(case.eval_input_fn)
  list(trained.predict(case.eval_input_fn))
  trained.export_saved_model(tmp_path)
  assert set(trained.variables) == names
  assert_same_values(before, values(trained))


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_names_are_those_of_one_core_and_of_a_second_run(case, trained, tmp_path):
  other = case.estimator(tmp_path, "cpu")
  other.trace("train", case.train_input_fn)
  assert list(other.variables) == list(trained.variables)


def initial_values(estimator):
  """What the training has saved before its first step."""
  path = directory.CheckpointDirectory(estimator.model_dir).path(0)
  return reader.read(path, list(estimator.variables))


@pytest.mark.parametrize(
  "case", long.except_for(cases.ON_EIGHT, cases.CASES), ids=lambda case: case.name
)
def test_initial_values_are_those_of_one_core(case, train):
  """They come from the seed and the name, not from what was drawn before."""
  assert_same_values(*(initial_values(train(case, device)) for device in ("cpu", "cpu:8")))


def test_another_seed_gives_other_values(case, tmp_path):
  first = case.estimator(tmp_path / "first", tf_random_seed=1)
  second = case.estimator(tmp_path / "second", tf_random_seed=2)
  for estimator in (first, second):
    estimator.trace("train", case.train_input_fn)
  first, second = values(first), values(second)
  assert any(not np.array_equal(first[name], second[name]) for name in first)
