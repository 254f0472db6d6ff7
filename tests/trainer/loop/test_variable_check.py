"""Variables that become NaN or infinite are told, also where the loss stays finite."""

import math
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import reader
from trainer.loop import non_finite, outer_loop, variable_check

BAD_STEP = 14


# ------------------------------------------------------------- which variables


class Clock:
  """A clock that a test moves; each reading takes `tick` seconds."""

  def __init__(self):
    self.now, self.tick = 100.0, 0.0

  def __call__(self):
    self.now += self.tick
    return self.now


def check_of(**variables):
  """(a VariableCheck of variables, its clock), at step 0."""
  clock = Clock()
  check = variable_check.VariableCheck(
    types.SimpleNamespace(variables=variables, bring_to_host=lambda: None),
    types.SimpleNamespace(broadcast_from_chief=lambda value: value),
    clock,
  )
  return check, clock


def statistic(value):
  """A variable as the store makes it of one that is not trained."""
  on_read = tf.VariableSynchronization.ON_READ
  return tf.Variable(value, trainable=False, synchronization=on_read)


def test_nothing_is_traced(monkeypatch):
  check, _ = check_of(w=tf.Variable([1.0]))
  with monkeypatch.context() as patched:
    patched.setattr(tf, "function", None)
    check.begin(0, None)
    assert check.faults() == {}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64"])
def test_each_kind_of_number_is_looked_at(dtype):
  variable = tf.Variable(tf.cast([1.0, 2.0], dtype))
  check, _ = check_of(count=tf.Variable(3), w=variable)
  check.begin(0, None)
  assert check.faults() == {}
  variable.assign(tf.cast([1.0, math.inf], dtype))
  assert check.faults() == {"w": "infinite"}
  variable.assign(tf.cast([math.nan, math.inf], dtype))
  assert check.faults() == {"w": "NaN"}


def test_large_numbers_whose_squares_overflow_are_finite():
  check, _ = check_of(w=tf.Variable([1e30, -3e38]))
  check.begin(0, None)
  assert check.faults() == {}


def test_a_model_without_floats_and_an_empty_variable():
  for variables in ({"count": tf.Variable(3)}, {"none": tf.Variable(tf.zeros([0]))}):
    check, _ = check_of(**variables)
    check.begin(0, None)
    assert check.faults() == {}


def test_a_mask_of_infinities_is_no_fault_and_nan_in_it_is():
  mask = tf.Variable([0.0, -math.inf])
  check, _ = check_of(mask=mask)
  check.begin(0, None)
  assert check.faults() == {}
  mask.assign([math.nan, -math.inf])
  assert check.faults() == {"mask": "NaN"}


def test_untrained_variable_may_become_inf_or_begin_with_nan():
  best, newest, mean = statistic(0.0), statistic(math.nan), statistic(0.0)
  check, _ = check_of(best=best, newest=newest, mean=mean)
  check.begin(0, None)
  best.assign(math.inf)
  assert check.faults() == {}
  mean.assign(math.nan)
  assert check.faults() == {"mean": "NaN"}


def test_a_variable_that_is_made_later_is_looked_at():
  variables = {"w": tf.Variable(1.0)}
  check, _ = check_of()
  check.store.variables = variables
  check.begin(0, None)
  variables["late"] = tf.Variable(math.inf)
  assert check.faults() == {"late": "infinite"}


@pytest.mark.parametrize(
  "checkpoint, words",
  [
    (None, "The variable w is NaN before the first step: look at the initial value"),
    ("/m/model.ckpt-7", r"NaN in /m/model\.ckpt-7: .* Move the files model\.ckpt-7\.\* away"),
  ],
)
def test_no_training_begins_with_weights_that_are_nan(checkpoint, words):
  check, _ = check_of(w=tf.Variable([1.0, math.nan]))
  with pytest.raises(errors.NonFiniteError, match=words):
    check.begin(7, checkpoint)


# -------------------------------------------------------------------- how often


def result(step, steps, bad_step=-1):
  loss = 0.5 if bad_step < 0 else math.nan
  return outer_loop.LoopResult(step, steps, 1.0, loss, bad_step, 0.0, {}, False)


def test_next_check_waits_400_times_the_last_checks_duration():
  w = tf.Variable(1.0)
  check, clock = check_of(w=w)
  check.begin(0, None)
  clock.tick = 0.5
  check.after_loop(result(1, 1), saves=False)  # the look took 0.5 s
  assert check.good_step == 1
  clock.tick = 0.0
  w.assign(math.nan)
  clock.now += 199.0
  check.after_loop(result(2, 1), saves=False)
  assert check.good_step == 1
  clock.now += 1.0
  with pytest.raises(non_finite.NonFinite) as found:
    check.after_loop(result(3, 1), saves=False)
  assert (found.value.step, found.value.good_step) == (3, 1)
  assert found.value.variables == {"w": "NaN"}


def test_good_step_after_a_rollback_is_the_rollback_step():
  check, clock = check_of(w=tf.Variable(1.0))
  check.begin(0, None)
  check.after_loop(result(20, 20), saves=True)
  clock.now = -math.inf  # no look is due
  check.after_loop(result(15, 5), saves=False)  # from step 10 on
  assert check.good_step == 10
  with pytest.raises(non_finite.NonFinite) as found:
    check.after_loop(result(20, 5, bad_step=17), saves=True)
  assert (found.value.step, found.value.good_step, found.value.loss) == (17, 10, "NaN")


# --------------------------------------------------------------- what is told


@pytest.mark.parametrize(
  "found, words",
  [
    (
      non_finite.NonFinite(14, 13, variables={"a/w": "NaN"}),
      "The variable a/w became NaN at step 14, while the loss stayed finite. ",
    ),
    (
      non_finite.NonFinite(20, 10, variables={"a/w": "infinite", "b": "NaN"}),
      "The variable a/w and another one became infinite between step 11 and step 20, while ",
    ),
    (
      non_finite.NonFinite(14, 13, "NaN", {"a/w": "NaN", "b": "NaN", "c": "NaN"}),
      "The variable a/w and 2 others became NaN at step 14, and the loss became NaN later. ",
    ),
    (
      non_finite.NonFinite(20, 20, variables={"a/w": "NaN"}),
      "The variable a/w became NaN after step 20, by a hook, while the loss stayed finite. ",
    ),
  ],
)
def test_the_message(found, words):
  assert non_finite.message(found, "/m/model.ckpt-5", "").startswith(words)


# ---------------------------------------------------------------- in a training


def line(optimizer, **arguments):
  """A line whose loss passes over rows that are no numbers; their gradient is none either."""

  def model_fn(features, labels, mode, params):
    w = tf.Variable(tf.zeros([programs.WIDTH]), name="w")
    y = tf.linalg.matvec(features["x"], w)
    errors_of_rows = tf.where(tf.math.is_finite(y), y - labels, 0.0)
    loss = tf.reduce_mean(tf.square(errors_of_rows))
    train_op = trainer.minimize(optimizer(), loss, **arguments)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def sgd():
  return keras.optimizers.SGD(0.01)


def with_nan_in_step(step, repeats=True):
  """An input_fn of global batches of 8, whose batch of a step has a NaN in row 3."""

  def input_fn(params):
    x, y = (array.copy() for array in programs.arrays(8 * 40))
    x[8 * (step - 1) + 3, 1] = np.nan
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, y))
    if repeats:
      dataset = dataset.repeat()
    return dataset.batch(params["batch_size"], drop_remainder=True)

  return input_fn


def estimator(folder, model_fn, device="cpu", **config):
  settings = dict(save_checkpoints_steps=10, keep_checkpoint_max=0) | config
  return programs.estimator(folder, model_fn, device, **settings)


def assert_checkpoints_are_finite(made):
  for step in made.checkpoint_steps():
    path = made.checkpoint_path(step)
    for name, value in reader.read(path, list(reader.shapes(path))).items():
      assert np.isfinite(value).all(), (step, name)


def adam():
  return keras.optimizers.Adam(0.01)


@pytest.mark.of_tensorflows_replicas
@pytest.mark.parametrize("length", ["default", "single steps"])
@pytest.mark.long_on_several_cores
def test_the_step_the_variable_and_the_batch(length, tmp_path, device):
  loops = {} if length == "default" else programs.fixed_loops(1)
  made = estimator(tmp_path, line(adam, ema_decay=0.9), device, **loops)
  with pytest.raises(errors.NonFiniteError) as raised:
    made.train(with_nan_in_step(BAD_STEP), max_steps=30)
  text = str(raised.value)
  assert "The variable w and 3 others became NaN at step 14, while the loss stayed finite." in text
  assert 'features["x"]' in text
  assert "model.ckpt-10; the training wrote no file since" in text
  batch = np.load(tmp_path / "non_finite" / f"step-{BAD_STEP}.npz")
  assert any(np.isnan(batch[name]).any() for name in batch.files)
  assert max(made.checkpoint_steps()) < BAD_STEP
  assert_checkpoints_are_finite(made)


@pytest.mark.parametrize("step", [10, 30], ids=["a save", "the last"])
def test_nan_of_the_very_step_that_is_saved(step, tmp_path):
  made = estimator(tmp_path, line(sgd))
  with pytest.raises(errors.NonFiniteError, match=f"variable w became NaN at step {step},"):
    made.train(with_nan_in_step(step), max_steps=30)
  assert made.latest_step() == step - 10
  assert_checkpoints_are_finite(made)


def test_no_checkpoint_is_written_of_an_unchecked_loop(tmp_path, monkeypatch):
  """Also where the data end, of which the loop before knows nothing."""
  monkeypatch.setattr(variable_check, "_PAUSE", 1e12)
  made = estimator(tmp_path, line(sgd), **programs.fixed_loops(4))
  with pytest.raises(errors.NonFiniteError, match="variable w became NaN at step 39,"):
    made.train(with_nan_in_step(39, repeats=False))
  assert made.latest_step() == 32
  assert_checkpoints_are_finite(made)


@pytest.mark.long_on_several_cores
def test_a_rollback_goes_on_from_the_last_good_checkpoint(tmp_path, device):
  made = estimator(
    tmp_path, line(sgd), device, on_non_finite="rollback", **programs.fixed_loops(10)
  )
  seen = []
  hook = lambda step, metrics, _: seen.append(step)
  made.train(with_nan_in_step(15), max_steps=30, hooks=[hook])
  assert seen == [10, 20, 30]
  assert made.get_variable_value("examples_seen") == 40 * 8
  assert_checkpoints_are_finite(made)


def test_a_second_rollback_tells_of_the_examples_that_were_read(tmp_path, caplog):
  """And not of those that the first one has passed over."""

  def input_fn(params):
    x, y = (array.copy() for array in programs.arrays(8 * 100))
    x[8 * 14] = x[8 * 24] = np.nan  # of step 15, and of the fifth step after the rollback
    x[8 * 24, 2] = 7.0
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(
      params["batch_size"], drop_remainder=True
    )

  made = estimator(tmp_path, line(sgd), on_non_finite="rollback", **programs.fixed_loops(10))
  with caplog.at_level("WARNING", logger="absl"):
    made.train(input_fn, max_steps=30)
  batch = np.load(tmp_path / "non_finite" / "step-15.npz")
  assert batch['features["x"]'][0, 2] == 7.0
  assert caplog.text.count("Going back to step 10") == 2
  assert_checkpoints_are_finite(made)


def test_rollback_at_end_of_data_keeps_last_good_checkpoint(tmp_path, caplog):
  made = estimator(tmp_path, line(sgd), on_non_finite="rollback", save_checkpoints_steps=0)
  made.train(with_nan_in_step(39, repeats=False), max_steps=100)
  assert made.latest_step() == 0
  assert "became NaN at step 39" in caplog.text
  assert_checkpoints_are_finite(made)


def test_a_loss_that_is_nan_because_a_variable_was_before(tmp_path):
  """The step of the variable is told: the batch of the loss is as good as any other."""

  def model_fn(features, labels, mode, params):
    spec = line(sgd)(features, labels, mode, params)
    w = tf.compat.v1.trainable_variables()[0]
    step = tf.compat.v1.train.get_global_step()
    loss = spec.loss + tf.where(step >= 17, tf.stop_gradient(tf.reduce_sum(w)), 0.0)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=spec.train_op)

  made = estimator(tmp_path, model_fn, **programs.fixed_loops(10))
  with pytest.raises(
    errors.NonFiniteError, match="variable w became NaN at step 14, and the loss became NaN later"
  ):
    made.train(with_nan_in_step(14), max_steps=30)


def logarithm(optimizer):
  """A logarithm of 0 under a tf.where: the loss is 0 there, and the gradient 0 times infinity."""

  def model_fn(features, labels, mode, params):
    scale = tf.Variable(1.0, name="scale")
    step = tf.compat.v1.train.get_global_step()
    z = scale * tf.where(tf.equal(step, BAD_STEP - 1), 0.0, tf.abs(features["x"][:, 0]))
    loss = tf.reduce_mean(tf.where(z > 0, tf.math.log(z), 0.0))
    optimizer_made = optimizer()
    if isinstance(optimizer_made, keras.optimizers.Optimizer):
      train_op = trainer.minimize(optimizer_made, loss, clip_norm=1.0)
    else:  # as a program for TF1 does it
      pairs = optimizer_made.compute_gradients(loss)
      train_op = optimizer_made.apply_gradients(pairs, tf.compat.v1.train.get_global_step())
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


@pytest.mark.parametrize(
  "optimizer",
  [sgd, lambda: tf.compat.v1.train.AdagradOptimizer(0.01)],
  ids=["clipped", "tf.compat.v1"],
)
def test_the_first_tensor_of_a_gradient(optimizer, tmp_path):
  made = estimator(tmp_path, logarithm(optimizer))
  with pytest.raises(errors.NonFiniteError) as raised:
    made.train(programs.train_input, max_steps=30)
  assert "The variable scale" in str(raised.value)
  assert "became NaN at step 14, while" in str(raised.value)
  assert "The first tensor with NaN or infinite values is the output of Log" in str(raised.value)


def test_rows_of_an_embedding(tmp_path):
  def model_fn(features, labels, mode, params):
    table = tf.Variable(tf.ones([100, 4]), name="table")
    rows = tf.cast(tf.abs(features["x"][:, 0]) * 10, tf.int32)
    step = tf.compat.v1.train.get_global_step()
    factor = tf.where(tf.equal(step, BAD_STEP - 1), math.nan, 1.0)
    found = tf.gather(table, rows) * factor
    loss = tf.reduce_mean(tf.where(tf.math.is_finite(found), found, 0.0))
    train_op = tf.compat.v1.train.AdamOptimizer(0.01).minimize(loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  with pytest.raises(
    errors.NonFiniteError, match=r"variable table .* became NaN at step 14, while"
  ):
    estimator(tmp_path, model_fn).train(programs.train_input, max_steps=30)


def test_nan_in_accumulated_gradients_is_found_before_apply(tmp_path):
  made = estimator(tmp_path, line(sgd, accumulate_steps=12), save_checkpoints_steps=20)
  with pytest.raises(errors.NonFiniteError, match="variable accumulated/w became NaN at step 14,"):
    made.train(with_nan_in_step(14), max_steps=40)
  assert made.latest_step() == 0


def test_a_batch_norm_s_moving_average(tmp_path):
  def model_fn(features, labels, mode, params):
    x = keras.layers.BatchNormalization(center=False, scale=False)(features["x"], training=True)
    x = tf.stop_gradient(tf.where(tf.math.is_finite(x), x, 0.0))
    w = tf.Variable(tf.zeros([programs.WIDTH]), name="w")
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - labels))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=trainer.minimize(sgd(), loss))

  with pytest.raises(
    errors.NonFiniteError, match="batch_normalization/moving_mean .* became NaN at step 14,"
  ):
    estimator(tmp_path, model_fn).train(with_nan_in_step(14), max_steps=30)


def test_a_step_that_loss_scaling_leaves_out_is_no_fault(tmp_path):
  """Its gradients are not finite, and it is what the scale is found by."""

  def scaled():
    return keras.optimizers.LossScaleOptimizer(sgd(), initial_scale=8.0)

  made = estimator(tmp_path, line(scaled))
  made.train(with_nan_in_step(BAD_STEP), max_steps=30)
  assert made.get_variable_value("loss_scale_optimizer/dynamic_scale") == 4.0
  assert np.abs(made.get_variable_value("w")).max() > 0


def test_masks_of_infinities_train(tmp_path):
  """A constant, and a variable that someone forgot to make one of."""

  def model_fn(features, labels, mode, params):
    tf.Variable([0.0, -math.inf], trainable=False, name="constant")
    mask = tf.Variable([0.0, -math.inf], name="mask")
    spec = programs.line(features, labels, mode, params)
    shares = tf.nn.softmax(tf.stop_gradient(mask))
    loss = spec.loss + 0.0 * tf.reduce_sum(shares)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=spec.train_op)

  made = estimator(tmp_path, model_fn).train(programs.train_input, max_steps=12)
  assert made.latest_step() == 12


def test_a_hook_that_makes_a_variable_nan_before_a_save(tmp_path):
  def hook(step, metrics, runner):
    if step == 20:
      runner.variables["w"].assign([math.nan] * 3)

  made = estimator(tmp_path, line(sgd), **programs.fixed_loops(10))
  with pytest.raises(errors.NonFiniteError, match="variable w became NaN after step 20, by a hook"):
    made.train(programs.train_input, max_steps=30, hooks=[hook])
  assert made.latest_step() == 10
  assert_checkpoints_are_finite(made)


def test_no_training_goes_on_from_a_checkpoint_that_is_nan(tmp_path):
  made = estimator(tmp_path, line(sgd)).train(programs.train_input, max_steps=10)
  values = {name: variable.read_value() for name, variable in made.variables.items()}
  values["w"] = tf.constant([math.nan] * 3)
  made._parts.checkpoints.save(20, values | {"global_step": tf.constant(20, tf.int64)})
  made._parts.checkpoints.wait()
  again = estimator(tmp_path, line(sgd))
  with pytest.raises(errors.NonFiniteError, match=r"variable w is NaN in .*model\.ckpt-20"):
    again.train(programs.train_input, max_steps=30)
  assert again.checkpoint_steps() == [0, 10, 20]
