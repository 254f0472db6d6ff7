"""Moving averages and slow weights, against the arithmetic done by hand."""

import keras
import numpy as np
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from tests.trainer.optimization import rows
from trainer.optimization import averages


@long.ON_TWO_CORES
def test_moving_averages_start_at_the_first_values(tmp_path, device):
  def train_op(loss):
    return trainer.minimize(keras.optimizers.SGD(0.1), loss, ema_decay=0.75)

  estimator = rows.trained(train_op, tmp_path, device, steps=3)
  average = rows.expected(0.1, 1)[0]
  for step in (2, 3):
    average = 0.75 * average + 0.25 * rows.expected(0.1, step)[0]
  np.testing.assert_allclose(
    estimator.variables[f"{averages.EMA_SCOPE}/w"].numpy(), average, atol=2e-6
  )
  rows.assert_close(estimator, rows.expected(0.1, 3))


@long.ON_TWO_CORES
def test_slow_weights_are_exchanged_every_few_steps(tmp_path, device):
  lookahead = trainer.Lookahead(every=2, decay=0.5, power=0)
  train_op = lambda loss: trainer.minimize(
    keras.optimizers.SGD(rows.RATE), loss, lookahead=lookahead
  )
  slow, fast = None, (np.zeros(programs.WIDTH), 0.0)
  x, y = (array.astype(np.float64) for array in programs.arrays(rows.ROWS))
  for step in range(1, 7):
    fast = tuple(
      value - rows.RATE * change
      for value, change in zip(fast, rows.gradient(*fast, x, y), strict=True)
    )
    if step % 2 == 0:
      first = slow is None
      fast = fast if first else tuple((a + b) / 2 for a, b in zip(slow, fast, strict=True))
      slow = fast
  estimator = rows.trained(train_op, tmp_path, device, steps=6)
  for name, found, wanted in zip("wb", rows.values(estimator), fast, strict=True):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(estimator.variables[f"lookahead/{name}"].numpy(), found)


def test_the_decay_of_slow_weights_grows_with_the_training(tmp_path):
  lookahead = trainer.Lookahead(every=1, decay=0.5, power=1.0)
  train_op = lambda loss: trainer.minimize(
    keras.optimizers.SGD(rows.RATE), loss, lookahead=lookahead
  )
  estimator = programs.estimator(
    tmp_path, rows.program(train_op), "cpu", batch_size=rows.ROWS, train_steps=4
  )
  estimator.train(rows.one_batch, max_steps=4)
  x, y = (array.astype(np.float64) for array in programs.arrays(rows.ROWS))
  slow, fast = None, (np.zeros(programs.WIDTH), 0.0)
  for step in range(1, 5):
    fast = tuple(
      value - rows.RATE * change
      for value, change in zip(fast, rows.gradient(*fast, x, y), strict=True)
    )
    if slow is not None:
      share = 0.5 * step / 4
      fast = tuple(share * a + (1 - share) * b for a, b in zip(slow, fast, strict=True))
    slow = fast
  np.testing.assert_allclose(rows.values(estimator)[0], fast[0], rtol=1e-5)


@long.ON_TWO_CORES
def test_statistics_are_exchanged_with_the_weights_that_they_fit(tmp_path, device):
  def model_fn(features, labels, mode, params):
    norm = keras.layers.BatchNormalization(momentum=0.5, name="norm")
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(norm(features["x"], training=True), 1) - labels))
    lookahead = trainer.Lookahead(every=2, decay=0.5, power=0)
    train_op = trainer.minimize(keras.optimizers.SGD(rows.RATE), loss, lookahead=lookahead)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  estimator = programs.estimator(tmp_path, model_fn, device, batch_size=rows.ROWS)
  variables = estimator.train(rows.one_batch, max_steps=4).variables
  # After step 2 the slow mean is 3/4 of the batch's. After step 4 it is half of that and half of
  # 15/16.
  wanted = programs.arrays(rows.ROWS)[0].mean(0) * (3 / 4 + 15 / 16) / 2
  np.testing.assert_allclose(variables["norm/moving_mean"].numpy(), wanted, rtol=1e-5)
  slow = variables["lookahead/norm/moving_mean"].numpy()
  np.testing.assert_array_equal(slow, variables["norm/moving_mean"].numpy())
