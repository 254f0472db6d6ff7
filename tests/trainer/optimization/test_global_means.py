"""A loss divided by a count of the global batch: on any cores, steps and batches the same mean."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from trainer import errors

v1 = tf.compat.v1
ON_EIGHT = pytest.mark.parametrize("device", ["cpu:8", "xla:8"])
PENALTY = 0.1
# Real places of each example. With 8 examples a step, on 8 cores or 2, some cores have none, and
# the steps have 10 and 1.
LENGTHS = [4, 3, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
EVALUATED = 13  # with a partial batch


def data():
  random = np.random.RandomState(0)
  x = random.randn(16, 4, 3).astype(np.float32)
  x[np.arange(4) >= np.array(LENGTHS)[:, None]] = 100.0  # what is no place counts nothing
  return x, (np.arange(4) < np.array(LENGTHS)[:, None]), random.randn(16, 4).astype(np.float32)


def input_fn(params, examples=16, repeats=1):
  x, mask, y = (part[:examples] for part in data())
  dataset = tf.data.Dataset.from_tensor_slices(({"x": x, "mask": mask}, y)).repeat(repeats)
  return dataset.batch(params["batch_size"], drop_remainder=examples == 16)


def model_fn(features, labels, mode, params, settings):
  hidden = keras.layers.Dense(5, "tanh", kernel_regularizer=keras.regularizers.L2(PENALTY))
  y = keras.layers.Dense(1)(hidden(features["x"] / 10))[..., 0]
  first = trainer.global_mean(tf.abs(y[:, 0]), features["mask"][:, 0])
  squares = trainer.global_mean(tf.square(y - tf.cast(labels, y.dtype)), features["mask"])
  loss = squares + 0.5 * first + sum(hidden.losses)
  train_op = None
  if mode == trainer.ModeKeys.TRAIN:
    settings = {"make": lambda: keras.optimizers.SGD(0.3, momentum=0.9)} | settings
    train_op = trainer.minimize(settings.pop("make")(), loss, **settings)
  return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)


def estimator(tmp_path, device="cpu", batch=16, precision="float32", **settings):
  return trainer.Estimator(
    lambda features, labels, mode, params: model_fn(features, labels, mode, params, settings),
    str(tmp_path / f"{device}_{batch}_{precision}"),
    trainer.RunConfig(device=device, precision=precision),
    train_batch_size=batch,
    eval_batch_size=8,
  )


def assert_same(one, other, tolerance=1e-6):
  for name in one.get_variable_names():
    if not name.startswith(("accumulated", "global_step")):
      expected, found = (each.get_variable_value(name) for each in (one, other))
      np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=name)


@ON_EIGHT
def test_accumulated_steps_are_one_step_of_one_core(tmp_path, device):
  """Two updates, each from two steps on eight cores, clipped, with averages."""
  settings = dict(clip_norm=0.5, ema_decay=0.5)
  one = estimator(tmp_path, **settings).train(functools.partial(input_fn, repeats=2), max_steps=2)
  several = estimator(tmp_path, device, 8, accumulate_steps=2, **settings)
  several.train(functools.partial(input_fn, repeats=2), max_steps=4)
  assert_same(one, several)
  evaluated = functools.partial(input_fn, examples=EVALUATED)
  found = several.evaluate(evaluated)["loss"]
  assert found == pytest.approx(one.evaluate(evaluated)["loss"], abs=1e-6)
  assert found == pytest.approx(by_numpy(several, EVALUATED), abs=1e-6)


def by_numpy(trained, examples):
  values = {name: trained.get_variable_value(f"ema/{name}") for name in WEIGHTS}
  x, mask, labels = (part[:examples] for part in data())
  w, b, w1, b1 = (values[name].astype(np.float64) for name in WEIGHTS)
  y = (np.tanh(x / 10 @ w + b) @ w1 + b1)[..., 0]
  penalty = PENALTY * (w**2).sum()
  return ((y - labels) ** 2)[mask].mean() + 0.5 * np.abs(y[mask[:, 0], 0]).mean() + penalty


WEIGHTS = ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]


@ON_EIGHT
def test_a_step_of_eight_cores_is_one_of_one_core(tmp_path, device):
  one, several = (
    estimator(tmp_path, where).train(input_fn, max_steps=1) for where in ("cpu", device)
  )
  assert_same(one, several)


@pytest.mark.parametrize("make", [lambda: v1.train.MomentumOptimizer(0.3, 0.9)])
def test_an_optimizer_of_v1_accumulates_as_well(tmp_path, make):
  one = estimator(tmp_path, make=make).train(input_fn, max_steps=1)
  several = estimator(tmp_path, "cpu:2", 8, make=make, accumulate_steps=2)
  assert_same(one, several.train(input_fn, max_steps=2))


def test_a_window_goes_on_where_a_checkpoint_left_it(tmp_path):
  whole = estimator(tmp_path / "whole", batch=4, accumulate_steps=4).train(input_fn, max_steps=4)
  parts = estimator(tmp_path / "parts", batch=4, accumulate_steps=4).train(input_fn, max_steps=1)
  assert parts.get_variable_value("accumulated/global_mean_1/count") == 10.0
  assert_same(whole, parts.train(input_fn, max_steps=4), tolerance=0)
  assert whole.get_variable_value("accumulated/global_mean_1/count") == 0.0


def test_the_gradient_of_a_learned_factor_counts_once(tmp_path):
  def factor(features, labels, mode, params):
    w = tf.Variable(1.0, name="w")
    loss = w * trainer.global_mean(labels, features["mask"])
    train_op = trainer.minimize(keras.optimizers.SGD(1.0), loss, accumulate_steps=2)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  made = trainer.Estimator(factor, str(tmp_path), train_batch_size=8)
  made.train(input_fn, max_steps=2)
  _, mask, y = data()
  means = [y[part][mask[part]].mean() for part in (slice(0, 8), slice(8, 16))]
  assert made.get_variable_value("w") == pytest.approx(1 - np.mean(means), abs=1e-6)


def test_bfloat16_layers_sum_in_float32(tmp_path):
  made = estimator(tmp_path, "cpu:2", precision="bfloat16").train(input_fn, max_steps=1)
  found = made.evaluate(functools.partial(input_fn, examples=EVALUATED))["loss"]
  assert np.isfinite(found)
  ones = trainer.global_mean(tf.ones([10_001], tf.bfloat16), tf.range(10_001) > 0)
  assert (ones.dtype, float(ones)) == (tf.float32, 1.0)


def test_nan_without_weight_counts_nothing():
  values = tf.constant([[1.0, np.nan], [3.0, np.inf]])
  with tf.GradientTape() as tape:
    tape.watch(values)
    mean = trainer.global_mean(values, [[0.5, 0.0], [1.5, 0.0]])
  assert float(mean) == 2.5
  np.testing.assert_array_equal(tape.gradient(mean, values), [[0.25, 0.0], [0.75, 0.0]])
  assert float(trainer.global_mean(values, [0, 0])) == 0.0
  assert float(trainer.global_mean(tf.constant([[1.0, 3.0], [5.0, 9.0]]), [True, False])) == 2.0
  assert float(trainer.global_mean(tf.constant([[1, 3]]))) == 2.0


@pytest.mark.parametrize("shape", [[3], [2, 4, 1], [2, 3]])
def test_weights_that_do_not_fit_are_refused(shape):
  with pytest.raises(errors.ModelFnError, match=r"the values \(2, 4\): expected the same first"):
    trainer.global_mean(tf.zeros([2, 4]), tf.ones(shape))


def test_a_mean_in_a_branch_is_refused(tmp_path):
  def branching(features, labels, mode, params):
    w = tf.Variable(1.0, name="w")
    mean = lambda: trainer.global_mean(w * features["x"], features["mask"])
    loss = tf.cond(tf.reduce_any(features["mask"]), mean, lambda: 0.0)
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.1), loss)
    )

  made = trainer.Estimator(branching, str(tmp_path), train_batch_size=4)
  with pytest.raises(errors.ModelFnError, match="cannot be inside of tf.cond"):
    made.train(input_fn, max_steps=1)


def test_a_sum_of_gradients_over_cores_is_refused(tmp_path):
  make = lambda: trainer.CrossShardOptimizer(keras.optimizers.SGD(0.1), reduction="sum")
  with pytest.raises(errors.ModelFnError, match="sums over the cores"):
    estimator(tmp_path, "cpu:2", make=make).train(input_fn, max_steps=1)


def masked_model(loss):
  """A model whose outputs are 0 at the start, masked where x is 0."""
  model = keras.Sequential(
    [
      keras.Input([2, 1]),
      keras.layers.Masking(0.0),
      keras.layers.Dense(1, kernel_initializer="zeros", name="dense"),
    ],
    name="model",
  )
  model.compile(keras.optimizers.SGD(0.5), loss)
  return model


def keras_input(params, weights=False):
  """The second half is padding; the mean of |0 - 4| is 4."""
  x = np.array([[[1.0], [1.0]], [[1.0], [0.0]], [[0.0], [0.0]], [[0.0], [0.0]]], np.float32)
  parts = (x, np.full([4, 2, 1], 4.0, np.float32))
  if weights:
    parts += (np.array([1.0, 3.0, 2.0, 2.0], np.float32)[:, None] * np.ones([1, 2], np.float32),)
  return tf.data.Dataset.from_tensor_slices(parts).repeat(2).batch(params["batch_size"], True)


KERAS_LOSSES = {
  "mask": (keras.losses.MeanAbsoluteError, {}, False),
  "mask and weights": (keras.losses.MeanAbsoluteError, {}, True),
  "by the weights": (keras.losses.MeanSquaredError, {"reduction": "mean_with_sample_weight"}, True),
}


@pytest.mark.parametrize("device", long.except_for(["cpu:2"], ["cpu", "cpu:2", "xla:2"]))
@pytest.mark.parametrize("case", KERAS_LOSSES)
def test_losses_of_keras_train_as_in_keras_on_one_core(tmp_path, device, case):
  kind, arguments, with_weights = KERAS_LOSSES[case]
  build = lambda: masked_model(kind(**arguments))
  read = functools.partial(keras_input, weights=with_weights)
  model = build()
  whole = read({"batch_size": 4})
  expected = model.evaluate(whole.take(1), verbose=0)
  made = trainer.Estimator(
    trainer.model_fn_from_keras(build),
    str(tmp_path),
    trainer.RunConfig(device=device),
    train_batch_size=4,
    eval_batch_size=2,
  )
  losses = []
  made.train(read, max_steps=1, hooks=[lambda step, scalars, _: losses.append(scalars["loss"])])
  model.fit(whole.take(1), verbose=0)
  for variable in model.weights:
    np.testing.assert_allclose(made.get_variable_value(variable.path), variable, atol=1e-6)
  found = made.evaluate(read)["loss"]
  assert found == pytest.approx(model.evaluate(whole.take(1), verbose=0), abs=1e-5)
  assert losses[0] == pytest.approx(expected, abs=1e-6)
  if case == "mask":
    assert expected == 4.0
