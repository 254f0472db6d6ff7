"""What a program does with gradients before it applies them is done to those of the whole batch."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests.compat import programs
from trainer.compat.v1.contrib import tpu as contrib_tpu


class Weighted(tf.train.Optimizer):
  """With an apply_gradients of its own, as BERT's has it."""

  def __init__(self):
    super().__init__(False, "Weighted")

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    return tf.group(*[v.assign(0.99 * v - 0.5 * g) for g, v in grads_and_vars], name=name)


def by_gradients(loss):
  variables = tf.trainable_variables()
  gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.01)
  return Weighted().apply_gradients(zip(gradients, variables, strict=True))


def by_compute_gradients(loss):
  optimizer = tf.train.GradientDescentOptimizer(0.5)
  pairs = [(tf.clip_by_norm(g, 0.01), v) for g, v in optimizer.compute_gradients(loss)]
  return optimizer.apply_gradients(pairs, tf.train.get_global_step())


def by_a_sum(loss):
  """A loss whose gradients are added up, and changed in between by what differs with the core."""
  optimizer = tf.train.GradientDescentOptimizer(0.5)
  pairs = [
    (tf.clip_by_value(g, -0.01, 0.01) + 0.0 * loss, v) for g, v in optimizer.compute_gradients(loss)
  ]
  return optimizer.apply_gradients(pairs)


@pytest.mark.parametrize(
  "make,reduction", [(by_gradients, "mean"), (by_compute_gradients, "mean"), (by_a_sum, "sum")]
)
def test_gradients_are_clipped_alike_on_one_core_and_two(tmp_path, make, reduction):
  def model_fn(features, labels, mode, params):
    logits = programs.logits_of(features)
    how = tf.losses.Reduction.SUM if reduction == "sum" else tf.losses.Reduction.MEAN
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits, reduction=how)
    return contrib_tpu.TPUEstimatorSpec(mode, loss=loss, train_op=make(loss))

  values = []
  for device in ("cpu", "cpu:2"):
    estimator = programs.tpu_estimator(tmp_path / device, device, fn=model_fn)
    estimator.train(programs.train_input_fn, steps=4)
    values.append(estimator.get_variable_value("net/dense/kernel"))
  np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-7)
