"""Schedules against formulas in numpy, and in the hands of optimizers: both kinds, one core and
eight, accumulated, resumed.
"""

import gin
import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import config, errors, run_config
from trainer.config import keras_names
from trainer.optimization import schedules
from trainer.settings import durations

v1 = tf.compat.v1

# 100 steps, of which 20 are an epoch.
LENGTH = durations.TrainingLength(batch_size=32, epoch_examples=640, train_steps=100)
STEPS = np.arange(0, 131)  # beyond the end, too


def warmed(rates, peak, warmup):
  return np.where(warmup > STEPS, peak * STEPS / max(warmup, 1), rates)


def progress(warmup, end):
  return np.clip((STEPS - warmup) / (end - warmup), 0, 1)


def half_cosine(peak, final, warmup, end):
  return warmed(
    final + (peak - final) * (1 + np.cos(np.pi * progress(warmup, end))) / 2, peak, warmup
  )


CASES = {
  "constant": (lambda: schedules.constant(0.1), np.full(131, 0.1)),
  "constant, warm-up": (lambda: schedules.constant(0.1, warmup="1 epoch"), warmed(0.1, 0.1, 20)),
  "cosine": (lambda: schedules.cosine(0.1), half_cosine(0.1, 0, 0, 100)),
  "cosine, warm-up": (
    lambda: schedules.cosine(0.1, warmup="10 %", final=0.02),
    half_cosine(0.1, 0.02, 10, 100),
  ),
  "cosine, shorter": (
    lambda: schedules.cosine(0.1, warmup="320 examples", duration="4 epochs"),
    half_cosine(0.1, 0, 10, 80),
  ),
  "linear": (lambda: schedules.linear(0.1, final=0.01), 0.1 - 0.09 * progress(0, 100)),
  "linear, up": (
    lambda: schedules.linear(0.1, final=0.3, duration=50),
    0.1 + 0.2 * progress(0, 50),
  ),
  "linear, warm-up": (
    lambda: schedules.linear(0.1, warmup=7),
    warmed(0.1 * (1 - progress(7, 100)), 0.1, 7),
  ),
  "triangle": (
    lambda: schedules.linear(0.1, warmup=23, final=0.007, initial=0.02),
    np.interp(STEPS, [0, 23, 100], [0.02, 0.1, 0.007]),
  ),
  "polynomial": (
    lambda: schedules.polynomial(0.1, power=3, warmup=7),
    warmed(0.1 * (1 - progress(7, 100)) ** 3, 0.1, 7),
  ),
  "polynomial, by default": (
    lambda: schedules.polynomial(0.1, final=0.05),
    0.05 + 0.05 * (1 - progress(0, 100)) ** 2,
  ),
  "exponential": (
    lambda: schedules.exponential(0.1, 0.5, every="1 epoch", warmup=8),
    warmed(0.1 * 0.5 ** ((STEPS - 8.0) / 20), 0.1, 8),
  ),
  "staircase": (
    lambda: schedules.exponential(0.1, 0.9, every=7, staircase=True),
    0.1 * 0.9 ** (STEPS // 7),
  ),
  "piecewise": (
    lambda: schedules.piecewise([0.1, 0.05, 0], ["1 epoch", "75 %"], warmup=20),
    warmed(np.select([STEPS < 20, STEPS < 75], [0.1, 0.05], 0), 0.1, 20),
  ),
  "piecewise, between steps": (
    lambda: schedules.piecewise([0.2, 0.1], [10.5]),
    np.where(STEPS < 10.5, 0.2, 0.1),
  ),
  "piecewise, one": (lambda: schedules.piecewise([0.2], []), np.full(131, 0.2)),
}


@pytest.mark.parametrize("make, expected", CASES.values(), ids=CASES)
def test_values_are_those_of_the_formula(make, expected):
  schedule = make()
  with schedules.training_scope(LENGTH):
    values = tf.function(
      lambda: tf.map_fn(
        schedule, tf.constant(STEPS), fn_output_signature=tf.TensorSpec([], tf.float32)
      )
    )()
  np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
  "name, step, rate",
  [
    ("cosine, warm-up", 0, 0.0),
    ("cosine, warm-up", 10, 0.1),
    ("cosine, warm-up", 100, 0.02),
    ("linear", 100, 0.01),
    ("linear", 0, 0.1),
    ("polynomial", 100, 0.0),
    ("piecewise", 19, 0.095),
    ("piecewise", 20, 0.05),
    ("piecewise", 74, 0.05),
    ("piecewise", 75, 0.0),
  ],
)
def test_the_ends_are_exact(name, step, rate):
  with schedules.training_scope(LENGTH):
    assert CASES[name][0]()(step).numpy() == np.float32(rate)


def test_single_steps_count_far_out():
  schedule = schedules.piecewise([1.0, 0.5], [2**30 + 1])
  assert [schedule(tf.constant(2**30 + more, tf.int64)).numpy() for more in (0, 1)] == [1.0, 0.5]


def test_the_same_numbers_as_kerass_cosine():
  theirs = keras.optimizers.schedules.CosineDecay(0.0, 90, warmup_target=0.1, warmup_steps=10)
  ours = schedules.cosine(0.1, warmup=10, duration=100)
  np.testing.assert_allclose(
    [ours(step) for step in STEPS], [theirs(step) for step in STEPS], rtol=1e-5, atol=1e-8
  )


def test_keras_makes_a_copy():
  copy = keras.optimizers.SGD.from_config(
    keras.optimizers.SGD(schedules.cosine(0.1, warmup="10 %")).get_config()
  )
  with schedules.training_scope(LENGTH):
    assert [copy._learning_rate(step).numpy() for step in (5, 10)] == pytest.approx([0.05, 0.1])


# ------------------------------------------------------------ in a training

OPTIMIZERS = {
  "keras": keras.optimizers.SGD,
  "v1": v1.train.GradientDescentOptimizer,
  "cross shard": lambda rate: trainer.CrossShardOptimizer(v1.train.GradientDescentOptimizer(rate)),
}

ROWS = 8


def program(make, schedule, **kwargs):
  """A model_fn that moves w by the learning rate each time that it is applied."""

  def model_fn(features, labels, mode, params):
    w = tf.Variable(0.0, name="w")
    loss = w + 0 * tf.reduce_mean(labels)
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(make(schedule()), loss, **kwargs)
    )

  return model_fn


def train(tmp_path, model_fn, device="cpu", steps=8, loop=3, **settings):
  """(the learning rates that were told at the ends of loops, w)."""
  told = []
  settings = dict(train_steps="4 epochs", epoch_examples=2 * ROWS) | settings
  estimator = programs.estimator(
    tmp_path, model_fn, device, batch_size=ROWS, **programs.fixed_loops(loop), **settings
  )
  estimator.train(
    programs.train_input,
    max_steps=steps,
    hooks=[lambda step, metrics, _: told.append(metrics["learning_rate"])],
  )
  return told, estimator.variables["w"].numpy()


def falling():
  return schedules.linear(0.8, warmup="1 epoch")


# Of the steps 0 to 7.
FALLING = [0, 0.4, 0.8, 0.8 * 5 / 6, 0.8 * 4 / 6, 0.8 * 3 / 6, 0.8 * 2 / 6, 0.8 / 6]


@pytest.mark.parametrize(
  "make, on",
  long.except_for(
    [("keras", "cpu"), ("v1", "cpu:2"), ("cross shard", "cpu")],
    [("keras", "cpu"), ("keras", "cpu:2"), ("v1", "cpu"), ("v1", "cpu:2"), ("cross shard", "cpu")],
  ),
)
def test_both_kinds_of_optimizer_follow_it_and_tell(make, on, tmp_path):
  told, w = train(tmp_path, program(OPTIMIZERS[make], falling), on, loop=1)
  assert told == pytest.approx(FALLING)
  assert w == pytest.approx(-sum(FALLING))


@pytest.mark.parametrize(
  "make, on",
  long.except_for(
    [("keras", "cpu:2"), ("v1", "cpu")], [("keras", "cpu"), ("keras", "cpu:2"), ("v1", "cpu")]
  ),
)
def test_accumulated_updates_have_the_rate_of_their_global_step(make, on, tmp_path):
  told, w = train(tmp_path, program(OPTIMIZERS[make], falling, accumulate_steps=3), on, loop=1)
  assert told == pytest.approx(FALLING)
  assert w == pytest.approx(-(FALLING[2] + FALLING[5]))


def test_an_optimizer_that_is_called_directly_follows_it(tmp_path):
  def model_fn(features, labels, mode, params):
    w = tf.Variable(0.0, name="w")
    train_op = keras.optimizers.SGD(falling()).apply_gradients([(tf.ones([]), w)])
    return trainer.EstimatorSpec(mode, loss=w + 0 * tf.reduce_mean(labels), train_op=train_op)

  told, w = train(tmp_path, model_fn)
  assert told == pytest.approx([FALLING[2], FALLING[5], FALLING[7]])  # loops of three
  assert w == pytest.approx(-sum(FALLING))


def test_a_resumed_training_goes_on_in_it(tmp_path):
  _, whole = train(tmp_path / "whole", program(OPTIMIZERS["v1"], falling))
  train(tmp_path / "parts", program(OPTIMIZERS["v1"], falling), steps=5)
  told, parts = train(tmp_path / "parts", program(OPTIMIZERS["v1"], falling), loop=1)
  assert told == pytest.approx(FALLING[5:])
  assert parts == whole


def test_a_step_that_is_given_is_the_step(tmp_path):
  def later():
    return falling()(v1.train.get_global_step() + 2)

  told, _ = train(tmp_path, program(OPTIMIZERS["v1"], later), loop=1)
  assert told == pytest.approx([*FALLING[2:], 0, 0])


def test_it_is_traced_once(tmp_path, monkeypatch):
  calls = []
  call = schedules.Schedule.__call__
  monkeypatch.setattr(
    schedules.Schedule, "__call__", lambda self, step=None: calls.append(step) or call(self, step)
  )
  train(tmp_path / "short", program(OPTIMIZERS["keras"], falling), steps=1, loop=1)
  short = len(calls)
  train(tmp_path / "long", program(OPTIMIZERS["keras"], falling), steps=7, loop=1)
  assert len(calls) == 2 * short


def test_only_training_needs_what_durations_are_measured_by(tmp_path):
  """A model_fn may make its train_op in every mode; an estimator that evaluates, and an export,
  have no train batch size.
  """

  def model_fn(features, labels, mode, params):
    optimizer = v1.train.GradientDescentOptimizer(
      schedules.cosine(0.1, warmup="1 epoch")(v1.train.get_global_step())
    )
    w = tf.Variable(0.0, name="w")
    loss = w + (0 if labels is None else tf.reduce_mean(labels))
    return trainer.EstimatorSpec(
      mode,
      predictions={"w": features["x"][:, 0] * w},
      loss=loss,
      train_op=trainer.minimize(optimizer, loss),
    )

  train(tmp_path, model_fn, steps=1)
  other = trainer.Estimator(
    model_fn, str(tmp_path), trainer.RunConfig(device="cpu"), eval_batch_size=ROWS
  )
  assert other.evaluate(programs.examples(3))["global_step"] == 1
  assert other.export_saved_model(str(tmp_path / "export"))


# ------------------------------------------------------------------ from gin

GIN = """
schedules.cosine.learning_rate = 0.5
schedules.cosine.warmup = "2 epochs"
RunConfig.epoch_examples = 40
"""


def test_a_gin_file_binds_it(tmp_path):
  keras_names.register()
  config.load([], [GIN, "keras.optimizers.SGD.learning_rate = @schedules.cosine()"], root=None)
  make = gin.get_configurable("keras.optimizers.SGD")
  settings = run_config.RunConfig(device="cpu", train_steps="4 epochs")
  estimator = trainer.Estimator(
    program(lambda _: make(), lambda: None), str(tmp_path), settings, train_batch_size=8
  )
  told = []
  estimator.train(
    programs.train_input,
    max_steps=11,
    hooks=[lambda step, metrics, _: told.append(metrics["learning_rate"])],
  )
  assert told[-1] == 0.5  # that of step 10, where the warm-up ends


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
  "make, message",
  [
    (
      lambda: schedules.cosine(-0.1),
      "schedules.cosine.learning_rate is -0.1; expected a number greater than 0",
    ),
    (
      lambda: schedules.constant("fast"),
      "schedules.constant.learning_rate is .*; expected a number",
    ),
    (lambda: schedules.linear(float("nan")), "schedules.linear.learning_rate"),
    (
      lambda: schedules.linear(0.1, final=-1),
      "schedules.linear.final is -1; expected a number of at least 0",
    ),
    (
      lambda: schedules.cosine(0.1, warmup="5 weeks"),
      "schedules.cosine.warmup is '5 weeks': expected a duration",
    ),
    (lambda: schedules.cosine(0.1, warmup=-5), "schedules.cosine.warmup is -5"),
    (
      lambda: schedules.cosine(0.1, duration=0),
      "schedules.cosine.duration must be a duration greater than 0; got 0",
    ),
    (
      lambda: schedules.polynomial(0.1, power=0),
      "schedules.polynomial.power is 0; expected a number greater than 0",
    ),
    (
      lambda: schedules.exponential(0.1, factor=-1, every=5),
      "schedules.exponential.factor is -1; expected a number greater than 0",
    ),
    (
      lambda: schedules.exponential(0.1, 0.5, every="0 epochs"),
      "schedules.exponential.every must be a duration greater than 0",
    ),
    (
      lambda: schedules.exponential(0.1, 0.5, every=5, staircase="no"),
      "schedules.exponential.staircase is 'no'; expected True or False",
    ),
    (
      lambda: schedules.piecewise([0.1, 0.2], []),
      "schedules.piecewise.learning_rates must be 1 numbers, one more than boundaries",
    ),
    (
      lambda: schedules.piecewise([0.1, -0.2], [5]),
      "schedules.piecewise.learning_rates is .*; expected a list .each: a number of at least 0",
    ),
    (lambda: schedules.piecewise([0.1, 0.2], ["x"]), "schedules.piecewise.boundaries is 'x'"),
  ],
)
def test_what_can_never_work(make, message):
  with pytest.raises(errors.SettingError, match=message):
    make()


@pytest.mark.parametrize(
  "make, message",
  [
    (
      lambda: schedules.cosine(0.1, warmup="100 %"),
      r"warmup is '100 %' \(100 steps\): it must be "
      r"shorter than schedules.cosine.duration, '100 "
      r"%'",
    ),
    (
      lambda: schedules.linear(0.1, warmup="2 epochs", duration=30),
      r"schedules.linear.warmup is "
      r"'2 epochs' \(40 steps\).*30 "
      r"\(30 steps\)",
    ),
    (
      lambda: schedules.piecewise([1, 2, 3], ["50 %", "1 epoch"]),
      r"boundaries is .*, in steps "
      r"\[50.0, 20.0\]: each must be "
      r"greater than the one",
    ),
    (lambda: schedules.piecewise([1, 2, 3], [5, 5]), "each must be greater than the one before"),
    (
      lambda: schedules.piecewise([1, 2], [5], warmup=6),
      r"schedules.piecewise.warmup is 6 \(6 "
      r"steps\): it must end before the first",
    ),
  ],
)
def test_what_does_not_fit_together(make, message):
  schedule = make()
  with schedules.training_scope(LENGTH), pytest.raises(errors.SettingError, match=message):
    schedule(0)


def test_a_missing_measure_is_told_before_anything_is_written(tmp_path):
  with pytest.raises(
    errors.SettingError,
    match="schedules.linear.warmup is '1 epoch', and Octet "
    "does not know the examples of an epoch: set RunConfig",
  ):
    train(tmp_path / "run", program(OPTIMIZERS["keras"], falling), epoch_examples=None)
  assert not (tmp_path / "run").exists()


def test_outside_of_a_training_it_wants_a_step():
  with pytest.raises(
    errors.SettingError, match="A call of schedules.constant outside of a training needs the step"
  ):
    schedules.constant(0.1)()
