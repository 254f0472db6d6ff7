"""Checkpoints of TensorFlow 2.15's Estimator: restored by name, trained on, written as there."""

import json
import pathlib
import shutil

import pytest

import trainer.compat.v1 as tf
from tests.compat import restored_2_15
from trainer.compat.v1 import estimator as tf_estimator

KEPT = pathlib.Path(__file__).with_name("checkpoint_2_15")
NAME = f"model.ckpt-{restored_2_15.STEPS}"


def test_a_training_of_2_15_goes_on_as_it_would_have_there(tmp_path):
  for path in KEPT.glob(f"{NAME}.*"):
    shutil.copy(path, tmp_path)
  (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{NAME}"\n')
  made, train_fn, eval_fn = restored_2_15.program(tf, tf_estimator, str(tmp_path), device="cpu")
  made.train(train_fn, steps=restored_2_15.STEPS)
  result = made.evaluate(eval_fn)
  assert result == pytest.approx(json.loads((KEPT / "values.json").read_text()), rel=1e-5)
  before = dict(tf.train.list_variables(str(KEPT / NAME)))
  after = dict(tf.train.list_variables(made.latest_checkpoint()))
  assert {name: shape for name, shape in after.items() if name != "examples_seen"} == before
