"""tf.contrib.losses and its metric_learning, whose figures are TensorFlow Addons' on 2.15."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from trainer.compat.v1.contrib.losses import metric_learning

_RANDOM = np.random.RandomState(0)
X = _RANDOM.randn(8, 3).astype("float32")
LABELS = np.array([0, 1, 0, 2, 1, 2, 0, 3])
POSITIVES = _RANDOM.randn(8, 3).astype("float32")


def run(make):
  with tf.Graph().as_default(), tf.Session() as session:
    return session.run(make())


def test_semihard_triplets():
  assert run(lambda: metric_learning.triplet_semihard_loss(LABELS, X)) == pytest.approx(1.38785326)


def test_lifted_structures_also_have_a_gradient():
  def make():
    x = tf.constant(X)
    loss = metric_learning.lifted_struct_loss(LABELS, x)
    return loss, tf.gradients(loss, x)[0]

  loss, gradient = run(make)
  assert loss == pytest.approx(8.66914272)
  assert np.isfinite(gradient).all()


def test_pairs():
  def make():
    return (
      metric_learning.npairs_loss(LABELS, X, POSITIVES, reg_lambda=0.0),
      metric_learning.npairs_loss(LABELS, X, POSITIVES, reg_lambda=0.4),
      metric_learning.contrastive_loss(LABELS % 2, X, POSITIVES, margin=2.0),
    )

  alone, penalized, contrastive = run(make)
  assert alone == pytest.approx(3.47957373)
  lengths = (X**2).sum(1).mean() + (POSITIVES**2).sum(1).mean()
  assert penalized - alone == pytest.approx(0.1 * lengths, rel=1e-5)
  d = np.sqrt(((X - POSITIVES) ** 2).sum(1))
  together = LABELS % 2
  expected = together * d**2 + (1 - together) * np.maximum(2 - d, 0) ** 2
  assert contrastive == pytest.approx(expected.mean(), rel=1e-5)


@pytest.mark.parametrize("skipped", [None, ["w"]])
def test_lars_scales_the_rate_by_norms(skipped):
  w0, scale = X[0], np.array([1.0, -2.0, 0.5], "float32")
  rate, decay, eeta, momentum = 0.5, 0.01, 0.1, 0.9

  def make():
    with tf.variable_scope("", use_resource=True):
      w = tf.get_variable("w", initializer=w0)
    optimizer = tf.contrib.opt.LARSOptimizer(
      rate, momentum, decay, eeta, skip_list=skipped, name="LARS"
    )
    return w, optimizer.minimize(tf.reduce_sum(w * w * scale)), optimizer

  with tf.Graph().as_default(), tf.Session() as session:
    w, train_op, optimizer = make()
    session.run(tf.global_variables_initializer())
    for _ in range(3):
      session.run(train_op)
    found = session.run(w)
    assert optimizer.get_slot(w, "momentum").name == "w/LARS:0"

  expected, kept = w0.astype("float64"), 0.0
  for _ in range(3):
    gradient, trust = 2 * expected * scale, 1.0
    if not skipped:
      of_w, of_g = np.linalg.norm(expected), np.linalg.norm(gradient)
      trust = eeta * of_w / (of_g + decay * of_w)
      gradient = gradient + decay * expected
    kept = momentum * kept + gradient
    expected = expected - rate * trust * kept
  np.testing.assert_allclose(found, expected, rtol=1e-5)
