"""A program for Estimators and what it is compared with are the same network."""

import pytest
import tensorflow as tf

import trainer
import trainer.compat.v1 as compat
from benchmarks import legacy, legacy_program
from tests import long


@pytest.mark.parametrize("name", long.except_for(["mlp_hooks"], ["mlp_hooks", "cnn"]))
def test_both_sides_train_the_same_variables(tmp_path, name):
  case = legacy_program.CASES[name]
  program = legacy_program.estimator(compat, case, f"{tmp_path}/program", device="cpu")
  program.train(lambda params: legacy_program.dataset(tf, case).take(1), steps=1)
  config = trainer.RunConfig(device="cpu")
  native = trainer.Estimator(
    legacy.native_model_fn(case), f"{tmp_path}/native", config, train_batch_size=case.batch_size
  )
  native.train(lambda params: legacy_program.dataset(tf, case), steps=1)
  ours, theirs = (
    [tuple(made.get_variable_value(v).shape) for v in made.get_variable_names()]
    for made in (program, native)
  )
  layers = 5 if name == "cnn" else 3
  # A kernel, a bias, and Adam's two moments of both; Adam's own scalars differ.
  assert sorted(filter(None, ours)) == sorted(filter(None, theirs))
  assert len([shape for shape in ours if shape]) == 6 * layers
