"""A model of one step over known rows, and the arithmetic done by hand."""

import numpy as np
import tensorflow as tf

import trainer
from tests.trainer import programs

ROWS = 16


RATE = 0.05


def gradient(w, b, x, y):
  """(gradient of w, gradient of b) of the mean squared error, in float64."""
  error = x @ w + b - y
  return 2 * x.T @ error / len(x), 2 * error.mean()


def program(train_op, var_names=("w", "b")):
  """A model_fn that trains a line by train_op(loss)."""

  def model_fn(features, labels, mode, params):
    w = tf.Variable(tf.zeros([programs.WIDTH]), name="w")
    b = tf.Variable(0.0, name="b")
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features["x"], w) + b - labels))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op(loss))

  return model_fn


def one_batch(params):
  """The same 16 points in every step."""
  x, y = programs.arrays(ROWS)
  return (
    tf.data.Dataset.from_tensor_slices(({"x": x}, y))
    .repeat()
    .batch(params["batch_size"], drop_remainder=True)
  )


def lines_of(train_ops):
  """A model_fn that trains a line by each of train_ops, name → function of (loss, variables)."""

  def model_fn(features, labels, mode, params):
    losses, ops = [], []
    for name, train_op in train_ops.items():
      w = tf.Variable(tf.zeros([programs.WIDTH]), name=f"{name}/w")
      b = tf.Variable(0.0, name=f"{name}/b")
      losses.append(tf.reduce_mean(tf.square(tf.linalg.matvec(features["x"], w) + b - labels)))
      ops.append(train_op(losses[-1], [w, b]))
    return trainer.EstimatorSpec(mode, loss=tf.add_n(losses), train_op=tf.group(*ops))

  return model_fn


def assert_lines(train_ops, tmp_path, device, reference, steps=2):
  """Trains a line by each of train_ops at once; asserts that each has the reference's values."""
  estimator = programs.estimator(
    tmp_path, lines_of(train_ops), device, batch_size=ROWS, **programs.fixed_loops(2)
  ).train(one_batch, steps=steps)
  assert estimator.latest_step() == steps
  for name in train_ops:
    for part, wanted in zip("wb", reference, strict=True):
      found = estimator.variables[f"{name}/{part}"].numpy()
      np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6, err_msg=f"{name}: {part}")


def trained(train_op, tmp_path, device, steps=1, loop=2):
  estimator = programs.estimator(
    tmp_path, program(train_op), device, batch_size=ROWS, **programs.fixed_loops(loop)
  )
  return estimator.train(one_batch, steps=steps)


def values(estimator):
  return estimator.variables["w"].numpy(), estimator.variables["b"].numpy()


def expected(rate, steps, transform=lambda w, b: (w, b)):
  """(w, b) after steps of plain gradient descent on `transform`ed gradients."""
  x, y = (array.astype(np.float64) for array in programs.arrays(ROWS))
  w, b = np.zeros(programs.WIDTH), 0.0
  for _ in range(steps):
    gradient_w, gradient_b = transform(*gradient(w, b, x, y))
    w, b = w - rate * gradient_w, b - rate * gradient_b
  return w, b


def assert_close(estimator, reference, tolerance=2e-6):
  for found, wanted in zip(values(estimator), reference, strict=True):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
