"""What programs for TensorFlow 1 switch off: some of it changes nothing, the rest is one error
that names the call.
"""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.devices import tensorflow_behavior
from trainer.internals import tensorflow_internals

v1 = tf.compat.v1


def everything(features, labels, mode, params):
  """A line, with as much of the framework around it as one program can have."""
  spec = programs.line(features, labels, mode, params)
  scale = v1.get_variable("scale", [], initializer=v1.ones_initializer())
  if mode == trainer.ModeKeys.PREDICT:
    return spec
  loss = spec.loss * scale
  if mode == trainer.ModeKeys.EVAL:
    return trainer.EstimatorSpec(
      mode, loss=loss, eval_metrics=(_accuracy, [labels, features["x"][:, 0]])
    )
  optimizer = v1.train.MomentumOptimizer(0.01, 0.9)
  return trainer.EstimatorSpec(
    mode,
    loss=loss,
    train_op=trainer.minimize(optimizer, loss, clip_norm=1.0, accumulate_steps=2, ema_decay=0.5),
    host_call=(lambda x: tf.reduce_sum(x), [features["x"]]),
  )


def _accuracy(labels, x):
  return {"accuracy": v1.metrics.accuracy(labels > 0, x > 0)}


def results(folder, device):
  """What a training, an evaluation with a tail, a prediction and an export come to."""
  return programs.results_of_all_modes(
    programs.estimator(folder / "model", everything, device), folder / "export"
  )


@pytest.mark.long_on_several_cores
def test_a_part_of_it_changes_nothing(device, tmp_path):
  expected = results(tmp_path / "as_ever", device)
  parts = "tensor_equality", "v2_tensorshape", "control_flow_v2", "resource_variables"
  for part in parts:
    getattr(v1, f"disable_{part}")()
  try:
    found = results(tmp_path / "changed", device)
  finally:
    for part in parts:
      getattr(v1, f"enable_{part}")()
  np.testing.assert_array_equal(found, expected)


_PROGRAM = """
import os, sys
import tensorflow as tf
import trainer
from tests.trainer import programs
from trainer import errors

call, when, folder = sys.argv[1:]

def input_fn(params):
  getattr(tf.compat.v1, call)()
  return programs.train_input(params)

if when == "first":
  getattr(tf.compat.v1, call)()
  input_fn = programs.train_input
try:
  programs.estimator(folder).train(input_fn, max_steps=1)
except errors.SettingError as error:
  print(error)
assert not os.path.exists(folder)
"""


@pytest.mark.long
@pytest.mark.parametrize(
  ("call", "when"),
  [("disable_v2_behavior", "first"), ("disable_eager_execution", "in the input_fn")],
)
def test_what_cannot_be_is_one_error_that_names_the_call(call, when, tmp_path):
  arguments = [sys.executable, "-c", _PROGRAM, call, when, str(tmp_path / "model")]
  run = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
  assert run.returncode == 0, run.stderr
  assert (
    f"calls tf.compat.v1.{call}(), and Octet needs eager execution: take the call out" in run.stdout
  )


@pytest.mark.parametrize(
  ("asked", "call"),
  [("has_v2_behavior", "disable_v2_behavior"), ("is_eager_by_default", "disable_eager_execution")],
)
def test_a_call_is_named_before_anything_is_written(asked, call, tmp_path, monkeypatch):
  """Made up in a graph: TensorFlow takes the calls themselves in a new process alone."""
  monkeypatch.setattr(tensorflow_internals, asked, lambda: False)
  estimator = programs.estimator(tmp_path / "model")
  with tf.Graph().as_default(), pytest.raises(errors.SettingError, match=rf"v1\.{call}\(\)"):
    estimator.train(programs.train_input, max_steps=1)
  assert not (tmp_path / "model").exists()


def test_a_graph_around_it_is_said():
  with (
    tf.Graph().as_default(),
    pytest.raises(
      errors.SettingError,
      match=r"with "
      r"tf.Graph\(\).as_default\(\)",
    ),
  ):
    tensorflow_behavior.check()
  tensorflow_behavior.check()
