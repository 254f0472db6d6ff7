"""Embeddings whose rows repeat train as on a dense gradient: equal rows are added first."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long, runtimes
from tests.trainer import programs
from trainer.optimization import combined_gradients
from trainer.pjrt import devices

v1 = tf.compat.v1

SGD, Adam, Adagrad = keras.optimizers.SGD, keras.optimizers.Adam, keras.optimizers.Adagrad

# The row's slices are eight times 1/8: its gradient is 1. The learning rate is 1.
# Name → what one step does to the row, the optimizer, and the settings of `minimize`.
STEPS = {
  "sgd": (-1, lambda: SGD(1.0), {}),
  "clip_norm": (-0.5, lambda: SGD(1.0), {"clip_norm": 0.5}),
  "clipnorm": (-0.5, lambda: SGD(1.0, clipnorm=0.5), {}),
  "global_clipnorm": (-0.5, lambda: SGD(1.0, global_clipnorm=0.5), {}),
  "clipvalue": (-0.1, lambda: SGD(1.0, clipvalue=0.1), {}),
  "adagrad": (-1 / np.sqrt(1.1), lambda: Adagrad(1.0), {}),
  "rmsprop": (-1 / np.sqrt(0.1), lambda: keras.optimizers.RMSprop(1.0), {}),
  "ftrl": (-1 / np.sqrt(1.1), lambda: keras.optimizers.Ftrl(1.0), {}),
  "adam": (-1, lambda: Adam(1.0), {}),
  "clipped_adam": (-1, lambda: Adam(1.0), {"clip_norm": 0.5}),
  "v1_clipped": (-0.5, lambda: v1.train.GradientDescentOptimizer(1.0), {"clip_norm": 0.5}),
}


def connect(on):
  if on.startswith("xla:"):
    runtimes.require_jax()
    devices.connect("cpu", 8)  # at once, for all tests: a process cannot add devices


def only_row_0(params):
  rows = tf.data.Dataset.from_tensors(np.int32(0)).repeat()
  return rows.batch(params["batch_size"], drop_remainder=True)


def tables(features, labels, mode, params):
  losses, ops = [], []
  for name, (_, optimizer, settings) in STEPS.items():
    table = tf.Variable([[0.0], [0.0]], name=name)
    losses.append(tf.reduce_mean(tf.nn.embedding_lookup(table, features)))
    ops.append(trainer.minimize(optimizer(), losses[-1], var_list=[table], **settings))
  return trainer.EstimatorSpec(mode, loss=tf.add_n(losses), train_op=tf.group(*ops))


@pytest.mark.parametrize(
  "on", long.except_for(["cpu:2", "xla:1"], ["cpu", "cpu:2", "cpu:8", "xla:1", "xla:2", "xla:8"])
)
def test_equal_rows_are_added_first_on_every_device(on, tmp_path):
  connect(on)
  estimator = programs.estimator(tmp_path, tables, on, batch_size=8).train(only_row_0, steps=1)
  for name, (expected, *_) in STEPS.items():
    table = estimator.get_variable_value(name)
    np.testing.assert_allclose(table, [[expected], [0]], atol=1e-4, err_msg=name)


# They call other optimizers.
_WRAPPERS = {"LossScaleOptimizer", "MultiOptimizer", "Optimizer"}
OPTIMIZERS = {
  name: kind
  for name, kind in vars(keras.optimizers).items()
  if inspect.isclass(kind)
  and issubclass(kind, keras.optimizers.Optimizer)
  and name not in _WRAPPERS
}
SETTINGS = {"plain": {}, "clipnorm": {"clipnorm": 0.05}, "clipvalue": {"clipvalue": 0.02}}


def stepped(kind, settings, slices, add):
  """The table after a step with each of `slices`."""
  table = keras.Variable(np.linspace(-1, 1, 24).reshape(6, 4), dtype="float32", name="table")
  optimizer = kind(0.1, **settings)
  for one in slices:
    optimizer.apply(add([one], optimizer), [table])
  return table.numpy()


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_of_keras_trains_as_on_a_dense_gradient(name, settings):
  draws = np.random.default_rng(0)
  slices = [
    tf.IndexedSlices(draws.normal(size=[5, 4]).astype(np.float32), rows, [6, 4])
    for rows in ([3, 1, 3, 3, 1], [0, 1, 2, 3, 4], [5, 5, 5, 5, 5])
  ]
  dense = stepped(
    OPTIMIZERS[name], SETTINGS[settings], slices, lambda each, _: [tf.convert_to_tensor(each[0])]
  )
  added = stepped(OPTIMIZERS[name], SETTINGS[settings], slices, combined_gradients.add_equal_rows)
  np.testing.assert_allclose(added, dense, rtol=0, atol=1e-6)


CLIPS = {
  "plain": ({}, {}),
  "clip_norm": ({}, {"clip_norm": 0.05}),
  "clipnorm": ({"clipnorm": 0.05}, {}),
  "clipvalue": ({"clipvalue": 0.02}, {}),
}


def tables_and_dense_twins(features, labels, mode, params):
  """Trains each table twice: by rows that repeat, and by the product that has a dense gradient."""
  losses, ops = [], []
  for name, kind in OPTIMIZERS.items():
    for clip, (own, settings) in CLIPS.items():
      for kind_of_gradient in ("rows", "dense"):
        start = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
        table = tf.Variable(start, name=f"{name}_{clip}_{kind_of_gradient}")
        if kind_of_gradient == "rows":
          looked_up = tf.nn.embedding_lookup(table, features)
        else:
          looked_up = tf.one_hot(features, 6) @ table
        # Another gradient in each place, at each step.
        scale = tf.reshape(tf.cast(features, tf.float32) - 2.2, [-1, 1])
        losses.append(tf.reduce_mean(tf.square(looked_up - 0.3 * scale)))
        ops.append(trainer.minimize(kind(0.1, **own), losses[-1], var_list=[table], **settings))
  return trainer.EstimatorSpec(mode, loss=tf.add_n(losses), train_op=tf.group(*ops))


def repeated_rows(params):
  rows = np.random.default_rng(0).choice([1, 3, 4], 48).astype(np.int32)
  rows = tf.data.Dataset.from_tensor_slices(rows).repeat()
  return rows.batch(params["batch_size"], drop_remainder=True)


@pytest.mark.parametrize(
  "on", long.except_for([], ["cpu", "cpu:2", "cpu:8", "xla:1", "xla:2", "xla:8"])
)
def test_all_optimizers_train_as_on_a_dense_gradient(on, tmp_path):
  connect(on)
  estimator = programs.estimator(tmp_path, tables_and_dense_twins, on, batch_size=16)
  estimator.train(repeated_rows, steps=3)
  for name in OPTIMIZERS:
    for clip in CLIPS:
      rows, dense = (estimator.get_variable_value(f"{name}_{clip}_{k}") for k in ("rows", "dense"))
      # Muon makes small singular values of a gradient large, those of rounding too.
      atol = 1e-4 if name == "Muon" else 1e-6
      np.testing.assert_allclose(rows, dense, rtol=0, atol=atol, err_msg=f"{name}, {clip}")


class RowByRow(keras.optimizers.SGD):
  """Assigns rows, which would let one of two equal rows win."""

  def update_step(self, gradient, variable, learning_rate):
    raise AssertionError("called")


def test_an_optimizer_with_an_own_update_gets_a_dense_gradient():
  slices = tf.IndexedSlices([[1.0], [2.0], [4.0]], [2, 0, 2], [3, 1])
  (added,) = combined_gradients.add_equal_rows([slices], RowByRow())
  np.testing.assert_array_equal(added, [[2], [0], [5]])


def test_rows_of_a_large_table_stay_rows():
  """A dense gradient would cost as much as the table."""
  slices = tf.IndexedSlices([[1.0], [2.0], [4.0]], [7, 0, 7], [10**9, 1])
  for optimizer in (Adagrad(), Adam(), v1.train.AdamOptimizer()):
    (added,) = combined_gradients.add_equal_rows([slices], optimizer)
    np.testing.assert_array_equal(added.indices, [0, 7, 0])
    np.testing.assert_array_equal(added.values, [[2], [5], [0]])


def test_rows_are_added_once_where_they_are_clipped():
  """Adding them sorts them, which costs as much as the update."""
  with tf.Graph().as_default(), combined_gradients.training_scope():
    slices = tf.IndexedSlices(tf.ones([3, 1]), tf.constant([7, 0, 7]), tf.constant([9, 1]))
    added = combined_gradients.add_equal_rows([slices], Adam())
    (clipped,), _ = tf.clip_by_global_norm(added, 1.0)
    (again,) = combined_gradients.add_equal_rows([clipped], Adam())
  assert added[0] is not slices
  assert again is clipped


def test_a_gradient_of_no_rows_stays_one():
  slices = tf.IndexedSlices(tf.zeros([0, 2]), tf.zeros([0], tf.int64), [4, 2])
  added, absent = combined_gradients.add_equal_rows([slices, None], Adagrad())
  assert absent is None
  assert added.values.shape == (0, 2)
  assert added.indices.shape == (0,)
