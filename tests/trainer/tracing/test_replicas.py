"""What eight cores do together: combined gradients, synchronized batch norm, random numbers of
their own.
"""

import functools
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.conformance import cases
from tests.trainer import programs

v1 = tf.compat.v1

# A few here, one in the gate; tests/slow/optimizers.py has them all.
OPTIMIZERS = {
  "adam": keras.optimizers.Adam,
  "v1_momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
}
SETTINGS = {"clipped": {"clip_norm": 0.1}, "accumulated": {"accumulate_steps": 4, "clip_norm": 0.1}}


def largest_difference(model_fn, tmp_path, several, steps=20):
  """Of any variable, after training on one core and on several."""
  case = cases.Case("case", model_fn)
  values = []
  for device in ("cpu", several):
    estimator = case.estimator(tmp_path / device, device).train(case.train_input_fn, steps=steps)
    values.append({name: variable.numpy() for name, variable in estimator.variables.items()})
  one, more = values
  assert one.keys() == more.keys()
  return max(np.abs(one[name] - more[name]).max() for name in one)


@pytest.mark.parametrize("several", long.except_for(["cpu:2"], ["cpu:2", "cpu:8"]))
@pytest.mark.parametrize("settings", long.except_for(["accumulated"], SETTINGS))
@pytest.mark.parametrize("optimizer", long.except_for(["adam"], OPTIMIZERS))
def test_several_cores_optimize_as_one(optimizer, settings, several, tmp_path):
  train_op = cases.minimized(OPTIMIZERS[optimizer], **SETTINGS[settings])
  model_fn = functools.partial(cases.keras_layers, train_op=train_op)
  assert largest_difference(model_fn, tmp_path, several) <= 1e-5


@pytest.mark.parametrize("several", long.except_for(["cpu:2"], ["cpu:2", "cpu:8", "xla:8"]))
def test_synchronized_batch_norm_is_that_of_the_global_batch(several, tmp_path, monkeypatch):
  # For each all-reduce it would walk through the graphs of all replicas, which takes minutes.
  walks = sys.modules["tensorflow.python.ops.op_selector"]
  monkeypatch.setattr(walks, "get_backward_walk_ops", None)

  def model_fn(features, labels, mode, params):
    x = keras.layers.Conv2D(4, 3, use_bias=False)(features["image"])
    x = keras.layers.BatchNormalization(synchronized=True)(
      x, training=mode == trainer.ModeKeys.TRAIN
    )
    logits = keras.layers.Dense(5)(keras.layers.Flatten()(tf.nn.relu(x)))
    return cases.spec(mode, labels, logits, cases.minimized(lambda: keras.optimizers.SGD(0.1)))

  assert largest_difference(model_fn, tmp_path, several) <= 1e-4


@pytest.mark.parametrize("several", long.except_for(["cpu:2"], ["cpu:2", "xla:2"]))
def test_synchronized_batch_norm_counts_the_unmasked_places(several, tmp_path):
  x = np.array([[[1.0, 2.0], [3.0, 0.0]], [[5.0, 7.0], [0.0, 0.0]]], np.float32)  # one is padding

  def input_fn(params):
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, np.float32([1, 2]))).repeat(2)
    return dataset.batch(params["batch_size"], drop_remainder=True)

  def model_fn(features, labels, mode, params):
    y = keras.layers.Masking()(features["x"])
    norm = keras.layers.BatchNormalization(momentum=0.0, synchronized=True, name="norm")
    y = keras.layers.Dense(2, kernel_initializer="identity")(y)
    y = norm(y, training=mode == trainer.ModeKeys.TRAIN)
    y = keras.layers.Dense(1)(tf.square(y))
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(y, [1, 2]) - labels))
    train_op = trainer.minimize(keras.optimizers.SGD(1e-4), loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  values = []
  for device in ("cpu", several):
    estimator = trainer.Estimator(
      model_fn, str(tmp_path / device), trainer.RunConfig(device=device), train_batch_size=2
    ).train(input_fn, max_steps=1)
    if device != "cpu":
      np.testing.assert_allclose(estimator.variables["norm/moving_mean"], [3, 3], atol=1e-6)
      found = estimator.variables["norm/moving_variance"]
      np.testing.assert_allclose(found, [8 / 3, 26 / 3], atol=1e-5)
    estimator.train(input_fn, max_steps=2)
    values.append({name: variable.numpy() for name, variable in estimator.variables.items()})
  for name, value in values[0].items():
    np.testing.assert_allclose(values[1][name], value, atol=1e-5, err_msg=name)


def test_accumulated_steps_are_one_step_of_their_joint_batch(tmp_path):
  """Four steps of b accumulated do what one step of 4b does, and nothing before the fourth."""
  small = cases.Case(
    "small",
    functools.partial(
      cases.keras_layers,
      train_op=cases.minimized(lambda: keras.optimizers.SGD(0.1), accumulate_steps=4),
    ),
    global_batch=8,
  )
  large = cases.Case(
    "large",
    functools.partial(
      cases.keras_layers, train_op=cases.minimized(lambda: keras.optimizers.SGD(0.1))
    ),
    global_batch=32,
  )
  kernels = {}
  for case, last in ((small, 4), (large, 1)):

    def remember(step, metrics, estimator, case=case):
      kernels[case.name, step] = estimator.variables["dense/kernel"].numpy()

    case.estimator(tmp_path / case.name, **programs.fixed_loops(1)).train(
      case.train_input_fn, hooks=[remember], steps=last
    )
  initial = small.estimator(tmp_path / "initial")
  initial.trace("train", small.train_input_fn)
  np.testing.assert_array_equal(kernels["small", 3], initial.variables["dense/kernel"].numpy())
  np.testing.assert_allclose(kernels["small", 4], kernels["large", 1], atol=1e-6)
  assert np.abs(kernels["small", 4] - kernels["small", 3]).max() > 1e-4


@pytest.mark.long  # tests/trainer/optimization/test_averages.py has them in the gate
def test_moving_averages_follow_the_weights(device, tmp_path):
  case = cases.Case(
    "ema",
    functools.partial(
      cases.keras_layers, train_op=cases.minimized(lambda: keras.optimizers.SGD(0.1), ema_decay=0.5)
    ),
  )
  kernels, averages = [], []

  def remember(step, metrics, estimator):
    kernels.append(estimator.variables["dense/kernel"].numpy())
    averages.append(estimator.variables["ema/dense/kernel"].numpy())

  case.estimator(tmp_path, device, tpu_config=trainer.TPUConfig(iterations_per_loop=1)).train(
    case.train_input_fn, hooks=[remember], steps=3
  )
  np.testing.assert_array_equal(averages[0], kernels[0])
  np.testing.assert_allclose(averages[1], (kernels[0] + kernels[1]) / 2, atol=1e-7)
  np.testing.assert_allclose(
    averages[2], kernels[0] / 4 + kernels[1] / 4 + kernels[2] / 2, atol=1e-7
  )


def dropped(tmp_path, device, seed=1, steps=2):
  """Which of 64 ones per example dropout leaves, by step: arrays of [global batch, 64]."""
  masks = []

  def model_fn(features, labels, mode, params):
    x = keras.layers.Dropout(0.5)(features, training=True)
    weight = tf.Variable(1.0, name="weight")
    loss = tf.reduce_mean(x) * weight

    def remember(mask):
      masks.append(mask)

    return trainer.EstimatorSpec(
      mode,
      loss=loss,
      train_op=trainer.minimize(keras.optimizers.SGD(), loss),
      host_call=(lambda mask: tf.numpy_function(remember, [mask], []), [x]),
    )

  estimator = trainer.Estimator(
    model_fn,
    str(tmp_path),
    trainer.RunConfig(device=device, tf_random_seed=seed),
    train_batch_size=16,
  )
  estimator.train(
    lambda params: tf.data.Dataset.from_tensors(tf.ones([params["batch_size"], 64])).repeat(),
    steps=steps,
  )
  return masks


def test_dropout_differs_by_core_step_seed_and_is_repeatable(tmp_path):
  masks = dropped(tmp_path / "first", "cpu:2")
  again = dropped(tmp_path / "again", "cpu:2")
  np.testing.assert_array_equal(masks, again)
  first, second = np.split(masks[0], 2)
  assert first.tobytes() != second.tobytes()
  assert masks[0].tobytes() != masks[1].tobytes()
  assert dropped(tmp_path / "other", "cpu:2", seed=2)[0].tobytes() != masks[0].tobytes()


def test_dropout_goes_on_where_a_resumed_run_left_off(tmp_path):
  whole = dropped(tmp_path / "whole", "cpu", steps=3)
  dropped(tmp_path / "cut", "cpu", steps=2)
  assert dropped(tmp_path / "cut", "cpu", steps=1)[0].tobytes() == whole[2].tobytes()
