"""AdamOptimizer's updates of small variables compute what its kernel does, and take its place."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests import long
from tests.compat import programs
from trainer.compat.graph_mode import small_updates


def model_fn(features, labels, mode, params):
  """Two updates of the same variables in a step, by one optimizer whose rate falls."""
  loss = tf.losses.sparse_softmax_cross_entropy(labels, programs.logits_of(features))
  step = tf.train.get_global_step()
  optimizer = tf.train.AdamOptimizer(tf.train.exponential_decay(0.02, step, 2, 0.5), beta1=0.8)
  optimizer = tf.contrib.tpu.CrossShardOptimizer(optimizer)
  pairs = optimizer.compute_gradients(loss)
  first = optimizer.apply_gradients(pairs)
  with tf.control_dependencies([first]):
    train_op = optimizer.apply_gradients(pairs, step)
  return tf.estimator.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(folder, device):
  """{variable's name: its value} after some steps."""
  config = tf.estimator.tpu.RunConfig(model_dir=str(folder), device=device)
  estimator = tf.estimator.tpu.TPUEstimator(model_fn, config=config, train_batch_size=8)
  estimator.train(programs.train_input_fn, steps=5)
  return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


@pytest.mark.parametrize("device", long.except_for(["cpu:2"], ["cpu", "cpu:2"]))
def test_they_compute_what_the_kernel_does(tmp_path, monkeypatch, device):
  made, rate = [], small_updates._rate
  monkeypatch.setattr(small_updates, "_rate", lambda *args: made.append(rate(*args)) or made[-1])
  values = trained(tmp_path / "small", device)
  assert len(made) == 2 * 2 * (2 if device == "cpu:2" else 1)  # updates, variables, cores
  assert len({id(tensor) for tensor in made}) == len(made) / 2  # the variables have one
  monkeypatch.setattr(small_updates, "_LARGEST", 0)
  expected = trained(tmp_path / "kernel", device)
  assert values.keys() == expected.keys()
  for name, value in values.items():
    np.testing.assert_allclose(value, expected[name], rtol=2e-5, atol=2e-6, err_msg=name)
