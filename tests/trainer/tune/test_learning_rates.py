"""The sweep of learning rates: with each kind of optimizer, and what it leaves as it was."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from trainer import errors
from trainer.optimization import schedules
from trainer.tune import learning_rates

v1 = tf.compat.v1
STEPS = 120


class OwnApply(v1.train.Optimizer):
  """An optimizer of a program, with the names that BERT's has."""

  def __init__(self):
    super().__init__(False, "OwnApply")
    self.learning_rate = 3.0

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    updates = [each.assign_sub(self.learning_rate * grad) for grad, each in grads_and_vars]
    return tf.group(*updates, name=name)


OPTIMIZERS = {
  "a number": lambda: keras.optimizers.Adam(1e-3),
  "a schedule": lambda: keras.optimizers.SGD(schedules.cosine(3.0, warmup=2, duration=10)),
  "Keras's schedule": lambda: keras.optimizers.AdamW(
    keras.optimizers.schedules.CosineDecay(1e-3, 10)
  ),
  "TensorFlow 1": lambda: v1.train.AdamOptimizer(3.0),
  "TensorFlow 1, with an exponential decay": lambda: v1.train.GradientDescentOptimizer(
    v1.train.exponential_decay(3.0, v1.train.get_global_step(), 10, 0.5)
  ),
  "of a program": OwnApply,
}


def model_fn(make_optimizer, **settings):
  def fn(features, labels, mode):
    outputs = keras.layers.Dense(1, name="sums")(features)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    return trainer.EstimatorSpec(
      mode,
      loss=loss,
      train_op=trainer.minimize(make_optimizer(), loss, **settings),
      predictions=outputs,
    )

  return fn


def input_fn(params, repeat=True):
  rows = np.random.default_rng(0).normal(size=(256, 4)).astype("float32")
  data = tf.data.Dataset.from_tensor_slices((rows, rows.sum(1, keepdims=True)))
  data = data.repeat() if repeat else data
  return data.batch(params["batch_size"], drop_remainder=True)


def make(folder, optimizer, device="cpu", **settings):
  return trainer.Estimator(
    model_fn(optimizer, **settings),
    str(folder),
    trainer.RunConfig(device=device, show_progress=False),
    train_batch_size=16,
  )


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_rate_grows_whatever_the_optimizer_has(tmp_path, kind):
  found = learning_rates.sweep(make(tmp_path, OPTIMIZERS[kind]), input_fn, 1e-5, 100.0, STEPS)
  assert found.optimizers == [type(OPTIMIZERS[kind]()).__name__] if "decay" not in kind else True
  # A rate of 3, or of 0.001, would show in the first steps or never.
  first = found.smoothed[:20]
  assert max(first) - min(first) < 0.2 * first[0]
  assert 1e-3 < found.suggestion < found.lowest < 3.0
  assert found.losses[found.rates.index(found.lowest)] < 0.2 * first[0]
  assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("device", ["cpu:2", "xla:2"])
def test_several_cores_find_the_same(tmp_path, device):
  sgd = lambda: keras.optimizers.SGD(3.0)
  one, several = (
    learning_rates.sweep(make(tmp_path / name.replace(":", ""), sgd, name), input_fn, 1e-4, 1.0, 40)
    for name in ("cpu", device)
  )
  np.testing.assert_allclose(one.losses, several.losses, rtol=1e-3)


def test_the_same_seed_gives_the_same_bits(tmp_path):
  runs = [
    learning_rates.sweep(make(tmp_path, keras.optimizers.Adam), input_fn, steps=30)
    for _ in range(2)
  ]
  assert runs[0] == runs[1]


def test_a_later_training_is_as_if_nothing_had_been(tmp_path):
  values = []
  for name in ("with", "without"):
    estimator = make(tmp_path / name, lambda: keras.optimizers.SGD(0.1))
    if name == "with":
      learning_rates.sweep(estimator, input_fn, steps=30)
      assert not (tmp_path / name).exists()
    estimator.train(input_fn, max_steps=5)
    values.append(estimator.get_variable_value("sums/kernel"))
  np.testing.assert_array_equal(*values)


def test_accumulated_gradients_use_the_rate_of_their_step(tmp_path):
  estimator = make(tmp_path, lambda: keras.optimizers.SGD(3.0), accumulate_steps=4)
  found = learning_rates.sweep(estimator, input_fn, 1e-4, 10.0, STEPS)
  assert 1e-3 < found.suggestion < 1.0


def test_a_model_without_an_optimizer_is_refused(tmp_path):
  def fn(features, labels, mode):
    variable = tf.Variable(1.0, name="factor")
    loss = tf.reduce_mean(tf.square(features * variable - labels))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=variable.assign_sub(0.1))

  estimator = trainer.Estimator(
    fn, str(tmp_path), trainer.RunConfig(device="cpu"), train_batch_size=16
  )
  with pytest.raises(errors.SettingError, match="needs an optimizer with a learning_rate"):
    learning_rates.sweep(estimator, input_fn)


def test_a_loss_that_is_no_number_from_the_start_is_refused(tmp_path):
  def broken(params):
    return input_fn(params).map(lambda rows, sums: (rows, sums * math.nan))

  with pytest.raises(errors.ModelFnError, match="first step, before any update, is nan"):
    learning_rates.sweep(make(tmp_path, keras.optimizers.Adam), broken)


def test_an_input_that_ends_too_early_is_refused(tmp_path):
  with pytest.raises(errors.InputError, match="ended after 16 of 200 steps"):
    learning_rates.sweep(
      make(tmp_path, keras.optimizers.Adam), lambda params: input_fn(params, repeat=False)
    )


@pytest.mark.parametrize(
  "low, high, steps, said",
  [
    (1.0, 0.1, 100, "cannot grow from 1 to 0.1"),
    (0.0, 0.1, 100, "two numbers above 0"),
    (1e-5, math.inf, 100, "two numbers above 0"),
    (1e-5, 1.0, 19, "--steps=19: expected at least 20"),
  ],
)
def test_a_range_that_cannot_work_is_refused(low, high, steps, said):
  with pytest.raises(errors.SettingError, match=said):
    learning_rates.check(low, high, steps)


def test_smoothing_is_a_moving_average_without_a_bias():
  assert learning_rates._smooth([3.0] * 4, 0.9) == pytest.approx([3.0] * 4)
  found = learning_rates._smooth([1.0, 3.0], 0.5)
  assert found == pytest.approx([1.0, (0.25 * 1 + 0.5 * 3) / 0.75])


def judged(losses, steps=200):
  rates = [1e-6 * 1e7 ** (step / (steps - 1)) for step in range(len(losses))]
  return learning_rates._judged(rates, losses, steps, 16, ["Adam"])


NOISE = 0.05 * np.random.default_rng(0).normal(size=200)
FALL = np.concatenate([np.full(80, 2.0), np.linspace(2.0, 0.5, 40)])


def test_the_steepest_point_of_a_known_curve_is_found():
  found = judged([*(FALL + NOISE[:120]), *np.linspace(0.5, 40.0, 20), math.nan])
  assert 85 <= found.rates.index(found.suggestion) <= 115
  assert 104 <= found.rates.index(found.lowest) <= 124
  assert found.diverged == found.rates[-1]


def test_a_spike_at_the_end_does_not_bend_the_curve_before_it():
  calm, spike = judged(list(FALL)), judged([*FALL, 1e9])
  assert abs(calm.rates.index(calm.suggestion) - spike.rates.index(spike.suggestion)) <= 5


def test_a_loss_that_only_varies_suggests_nothing():
  found = judged(list(2.0 + NOISE))
  assert found.suggestion is None
  assert found.diverged is None


def test_a_negative_loss_may_fall():
  found = judged(list(-10.0 + FALL))
  assert found.suggestion is not None
  assert found.diverged is None
