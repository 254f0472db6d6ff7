"""train_ops against the arithmetic done by hand: combine, accumulate, clip, apply, average, on
one core and on eight.
"""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.optimization import averages

v1 = tf.compat.v1
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


def clipped(norm):
  def clip(gradient_w, gradient_b):
    factor = min(1.0, norm / np.sqrt(np.sum(gradient_w**2) + gradient_b**2))
    return gradient_w * factor, gradient_b * factor

  return clip


OPTIMIZERS = {
  "keras": lambda: keras.optimizers.SGD(0.1),
  "keras with a schedule": lambda: keras.optimizers.SGD(
    keras.optimizers.schedules.PiecewiseConstantDecay([100], [0.1, 0.0])
  ),
  "v1": lambda: v1.train.GradientDescentOptimizer(0.1),
  "cross shard": lambda: trainer.CrossShardOptimizer(v1.train.GradientDescentOptimizer(0.1)),
  "cross shard of keras": lambda: trainer.CrossShardOptimizer(
    keras.optimizers.SGD(0.1), reduction="weighted_mean"
  ),
}


@pytest.mark.parametrize(
  "name, on",
  [
    *((name, "cpu") for name in OPTIMIZERS),
    ("keras", "cpu:2"),
    ("v1", "cpu:2"),
    ("cross shard", "cpu:2"),
  ],
)
def test_a_step_follows_the_mean_gradient_of_the_global_batch(name, on, tmp_path):
  assert_close(
    trained(lambda loss: trainer.minimize(OPTIMIZERS[name](), loss), tmp_path, on, steps=2),
    expected(0.1, 2),
  )


DIRECT = {
  "keras": lambda loss: keras.optimizers.SGD(0.1).apply_gradients(
    zip(tf.gradients(loss, _trainable()), _trainable(), strict=True)
  ),
  "v1": lambda loss: v1.train.GradientDescentOptimizer(0.1).minimize(
    loss, v1.train.get_global_step()
  ),
}


def _trainable():
  return v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)


@pytest.mark.parametrize("train_op", DIRECT.values(), ids=DIRECT)
def test_optimizers_that_are_called_directly_do_the_same(train_op, tmp_path):
  estimator = trained(train_op, tmp_path, "cpu:2", steps=2)
  assert_close(estimator, expected(0.1, 2))
  assert estimator.latest_step() == 2


@pytest.mark.parametrize("make", [OPTIMIZERS["keras"], OPTIMIZERS["v1"]], ids=["keras", "v1"])
def test_clipping_is_of_the_combined_gradient(make, tmp_path, device):
  estimator = trained(
    lambda loss: trainer.minimize(make(), loss, clip_norm=0.5), tmp_path, device, steps=2
  )
  assert_close(estimator, expected(0.1, 2, clipped(0.5)))


def test_clipping_leaves_small_gradients_alone(tmp_path):
  estimator = trained(
    lambda loss: trainer.minimize(keras.optimizers.SGD(0.1), loss, clip_norm=1e6), tmp_path, "cpu"
  )
  assert_close(estimator, expected(0.1, 1))


# Keras applies their gradients under a condition.
CONDITIONAL = {
  "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
  "accumulation": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
}
UPDATES_IN_TWO_STEPS = {"loss scale": 2, "accumulation": 1}


@pytest.mark.parametrize("name", CONDITIONAL)
def test_optimizers_that_decide_in_the_step_work_on_one_core(name, tmp_path):
  estimator = trained(
    lambda loss: trainer.minimize(CONDITIONAL[name](), loss), tmp_path, "cpu", steps=2
  )
  assert_close(estimator, expected(0.1, UPDATES_IN_TWO_STEPS[name]))


def test_a_loss_is_scaled_by_the_scale_of_the_moment(tmp_path):
  """Keras divides the gradients by it; a model_fn makes its optimizer anew in each trace."""

  def train_op(loss):
    optimizer = keras.optimizers.LossScaleOptimizer(
      keras.optimizers.SGD(0.1), initial_scale=4.0, dynamic_growth_steps=1
    )
    return trainer.minimize(optimizer, loss)

  estimator = trained(train_op, tmp_path, "cpu", steps=3)
  assert_close(estimator, expected(0.1, 3))
  (scale,) = (v.numpy() for name, v in estimator.variables.items() if "dynamic_scale" in name)
  assert scale > 4


@pytest.mark.parametrize("name", CONDITIONAL)
def test_conditional_optimizers_are_refused_on_several_cores(name, tmp_path):
  def direct(loss):
    optimizer = CONDITIONAL[name]()
    return optimizer.apply_gradients(
      zip(tf.gradients(loss, _trainable()), _trainable(), strict=True)
    )

  for train_op in (lambda loss: trainer.minimize(CONDITIONAL[name](), loss), direct):
    with pytest.raises(errors.ModelFnError, match="works on one core only. On several: "):
      trained(train_op, tmp_path, "cpu:2")


def test_keras_clipping_applies_to_the_combined_gradient(tmp_path, device):
  estimator = trained(
    lambda loss: trainer.minimize(keras.optimizers.SGD(0.1, global_clipnorm=0.5), loss),
    tmp_path,
    device,
  )
  assert_close(estimator, expected(0.1, 1, clipped(0.5)))


@pytest.mark.long_on_several_cores
def test_a_sum_over_the_replicas_is_that_many_means(tmp_path, device):
  def train_op(loss):
    return trainer.CrossShardOptimizer(
      v1.train.GradientDescentOptimizer(0.01), reduction="sum"
    ).minimize(loss)

  replicas = int(device.partition(":")[2] or 1)
  assert_close(trained(train_op, tmp_path, device), expected(0.01 * replicas, 1))


def test_accumulated_gradients_are_applied_at_the_last_step(tmp_path, device):
  def train_op(loss):
    return trainer.minimize(keras.optimizers.SGD(0.1), loss, accumulate_steps=3)

  estimator = trained(train_op, tmp_path, device, steps=2)
  assert_close(estimator, expected(0.1, 0))
  estimator.train(one_batch, steps=1)
  assert_close(estimator, expected(0.1, 1))
  estimator.train(one_batch, steps=4)
  assert_close(estimator, expected(0.1, 2))
  assert estimator.variables["sgd/iteration"].numpy() == 2
  assert estimator.latest_step() == 7


def test_accumulation_goes_on_where_a_checkpoint_left_it(tmp_path):
  def train_op(loss):
    return trainer.minimize(keras.optimizers.SGD(0.1), loss, accumulate_steps=3, clip_norm=0.5)

  trained(train_op, tmp_path, "cpu", steps=2)
  again = trained(train_op, tmp_path, "cpu", steps=1)
  assert_close(again, expected(0.1, 1, clipped(0.5)))


def test_moving_averages_start_at_the_first_values(tmp_path, device):
  def train_op(loss):
    return trainer.minimize(keras.optimizers.SGD(0.1), loss, ema_decay=0.75)

  estimator = trained(train_op, tmp_path, device, steps=3)
  average = expected(0.1, 1)[0]
  for step in (2, 3):
    average = 0.75 * average + 0.25 * expected(0.1, step)[0]
  np.testing.assert_allclose(
    estimator.variables[f"{averages.EMA_SCOPE}/w"].numpy(), average, atol=2e-6
  )
  assert_close(estimator, expected(0.1, 3))


def test_var_list_is_all_that_is_trained(tmp_path):
  def train_op(loss):
    return trainer.minimize(
      keras.optimizers.SGD(0.1),
      loss,
      var_list=[variable for variable in _trainable() if "w" in variable.name],
    )

  w, b = values(trained(train_op, tmp_path, "cpu"))
  assert b == 0
  assert w.any()


def test_the_global_step_counts_once_however_it_is_given(tmp_path):
  estimator = trained(
    lambda loss: trainer.minimize(
      v1.train.GradientDescentOptimizer(0.1), loss, v1.train.get_global_step()
    ),
    tmp_path,
    "cpu",
    steps=3,
  )
  assert estimator.latest_step() == 3


EMBEDDINGS = {
  "keras": lambda loss: trainer.minimize(keras.optimizers.SGD(0.5), loss),
  "v1": lambda loss: trainer.minimize(v1.train.GradientDescentOptimizer(0.5), loss),
  "clipped": lambda loss: trainer.minimize(keras.optimizers.SGD(0.5), loss, clip_norm=1e6),
  "accumulated": lambda loss: trainer.minimize(keras.optimizers.SGD(0.5), loss, accumulate_steps=2),
}


@pytest.mark.parametrize("name, on", [*((name, "cpu") for name in EMBEDDINGS), ("v1", "cpu:2")])
def test_gradients_of_a_few_rows(name, on, tmp_path):
  """Embeddings have gradients that are tf.IndexedSlices."""

  def model_fn(features, labels, mode, params):
    table = tf.Variable(tf.ones([10, 2]), name="table")
    loss = tf.reduce_mean(tf.square(tf.gather(table, features)))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=EMBEDDINGS[name](loss))

  def input_fn(params):
    return (
      tf.data.Dataset.from_tensor_slices([1, 2, 2, 5] * 4)
      .repeat()
      .batch(params["batch_size"], drop_remainder=True)
    )

  estimator = programs.estimator(
    tmp_path, model_fn, on, batch_size=16, **programs.fixed_loops(2)
  ).train(input_fn, steps=2)
  applied = (
    estimator.variables["sgd/iteration"].numpy() if "sgd/iteration" in estimator.variables else 2
  )
  table = np.ones([10, 2])
  for _ in range(applied):
    table -= 0.5 * np.array([0, 4, 8, 0, 0, 4, 0, 0, 0, 0])[:, None] / 16 * table
  np.testing.assert_allclose(estimator.variables["table"].numpy(), table, atol=1e-6)


def test_a_schedule_sees_the_steps(tmp_path):
  rates = []
  schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [0.5, 0.25, 0.125])
  programs.estimator(
    tmp_path,
    program(lambda loss: trainer.minimize(keras.optimizers.SGD(schedule), loss)),
    **programs.fixed_loops(1),
  ).train(
    programs.train_input,
    steps=4,
    hooks=[lambda step, metrics, _: rates.append(metrics["learning_rate"])],
  )
  assert rates == [0.5, 0.5, 0.25, 0.125]


@pytest.mark.parametrize(
  "make",
  [OPTIMIZERS["keras"], OPTIMIZERS["v1"], OPTIMIZERS["cross shard"]],
  ids=["keras", "v1", "cross shard"],
)
def test_the_learning_rate_is_told(make, tmp_path):
  seen = []
  programs.estimator(tmp_path, program(lambda loss: trainer.minimize(make(), loss))).train(
    programs.train_input,
    steps=1,
    hooks=[lambda step, metrics, _: seen.append(metrics["learning_rate"])],
  )
  assert seen == pytest.approx([0.1])


# ------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
  "arguments, message",
  [
    ({"clip_norm": 0}, "clip_norm is 0; expected a number greater than 0"),
    ({"clip_norm": -1.0}, "minimize.clip_norm is -1.0"),
    ({"accumulate_steps": 0}, "accumulate_steps is 0; expected an int greater than 0"),
    ({"accumulate_steps": 2.0}, "minimize.accumulate_steps is 2.0"),
    ({"ema_decay": 1.0}, "ema_decay is 1.0; expected a number between 0 and 1"),
    ({"ema_decay": 0}, "minimize.ema_decay is 0"),
  ],
)
def test_numbers_out_of_range(arguments, message):
  with pytest.raises(errors.SettingError, match=message):
    trainer.minimize(keras.optimizers.SGD(0.1), tf.constant(1.0), **arguments)


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, 0.1, "sgd", None])
def test_what_is_no_optimizer(optimizer):
  with pytest.raises(
    errors.SettingError,
    match="expected a Keras or a tf.compat.v1.train optimizer.*call a class first",
  ):
    trainer.minimize(optimizer, tf.constant(1.0))


def test_minimize_is_for_model_fns():
  with pytest.raises(errors.ModelFnError, match="inside the model_fn"):
    trainer.minimize(keras.optimizers.SGD(0.1), tf.constant(1.0))


@pytest.mark.parametrize("reduction", ["max", None])
def test_reductions_are_two(reduction):
  with pytest.raises(
    errors.SettingError, match=f"reduction must be 'mean' or 'sum'; got {reduction!r}"
  ):
    trainer.CrossShardOptimizer(keras.optimizers.SGD(0.1), reduction=reduction)


def test_a_loss_that_no_variable_has_a_part_in(tmp_path):
  def model_fn(features, labels, mode, params):
    tf.Variable(0.0, name="unused")
    loss = tf.reduce_mean(labels)
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.1), loss)
    )

  with pytest.raises(
    errors.ModelFnError,
    match=r"depends on none of the 1 trainable variables: "
    r"\['unused",
  ):
    programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)


def test_a_variable_without_a_gradient_stays_as_it_is(tmp_path):
  def model_fn(features, labels, mode, params):
    unused = tf.Variable(3.0, name="unused")
    del unused
    return programs.line(features, labels, mode, params)

  estimator = programs.estimator(tmp_path, model_fn, "cpu:2").train(programs.train_input, steps=2)
  assert estimator.variables["unused"].numpy() == 3.0
  assert estimator.variables["w"].numpy().any()


def test_other_attributes_are_the_optimizers_own():
  optimizer = keras.optimizers.SGD(0.25)
  assert trainer.CrossShardOptimizer(optimizer).learning_rate is optimizer.learning_rate


def test_slow_weights_are_exchanged_every_few_steps(tmp_path, device):
  lookahead = trainer.Lookahead(every=2, decay=0.5, power=0)
  train_op = lambda loss: trainer.minimize(keras.optimizers.SGD(RATE), loss, lookahead=lookahead)
  slow, fast = None, (np.zeros(programs.WIDTH), 0.0)
  x, y = (array.astype(np.float64) for array in programs.arrays(ROWS))
  for step in range(1, 7):
    fast = tuple(
      value - RATE * change for value, change in zip(fast, gradient(*fast, x, y), strict=True)
    )
    if step % 2 == 0:
      first = slow is None
      fast = fast if first else tuple((a + b) / 2 for a, b in zip(slow, fast, strict=True))
      slow = fast
  estimator = trained(train_op, tmp_path, device, steps=6)
  for name, found, wanted in zip("wb", values(estimator), fast, strict=True):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(estimator.variables[f"lookahead/{name}"].numpy(), found)


def test_the_decay_of_slow_weights_grows_with_the_training(tmp_path):
  lookahead = trainer.Lookahead(every=1, decay=0.5, power=1.0)
  train_op = lambda loss: trainer.minimize(keras.optimizers.SGD(RATE), loss, lookahead=lookahead)
  estimator = programs.estimator(tmp_path, program(train_op), "cpu", batch_size=ROWS, train_steps=4)
  estimator.train(one_batch, max_steps=4)
  x, y = (array.astype(np.float64) for array in programs.arrays(ROWS))
  slow, fast = None, (np.zeros(programs.WIDTH), 0.0)
  for step in range(1, 5):
    fast = tuple(
      value - RATE * change for value, change in zip(fast, gradient(*fast, x, y), strict=True)
    )
    if slow is not None:
      share = 0.5 * step / 4
      fast = tuple(share * a + (1 - share) * b for a, b in zip(slow, fast, strict=True))
    slow = fast
  np.testing.assert_allclose(values(estimator)[0], fast[0], rtol=1e-5)


@pytest.mark.parametrize(
  ("optimizer", "device"),
  long.except_for(
    [(keras.optimizers.SGD, "cpu"), (keras.optimizers.Adam, "cpu:2")],
    itertools.product([keras.optimizers.SGD, keras.optimizers.Adam], ["cpu", "cpu:2"]),
  ),
)
def test_a_group_has_a_learning_rate_of_its_own(optimizer, tmp_path, device):
  group = trainer.VariableGroup(names="^b$", learning_rate_factor=3.0)
  plain = lambda loss: trainer.minimize(optimizer(RATE), loss)
  grouped = lambda loss: trainer.minimize(optimizer(RATE), loss, groups=[group])
  w, b = values(trained(plain, tmp_path / "plain", device))
  scaled_w, scaled_b = values(trained(grouped, tmp_path / "grouped", device))
  np.testing.assert_array_equal(scaled_w, w)
  np.testing.assert_allclose(scaled_b, 3 * b, rtol=1e-6)


def test_a_group_may_stay_as_it_is(tmp_path, device):
  groups = [trainer.VariableGroup(names="^w", trainable=False)]
  train_op = lambda loss: trainer.minimize(keras.optimizers.Adam(RATE), loss, groups=groups)
  estimator = trained(train_op, tmp_path, device)
  w, b = values(estimator)
  assert not w.any()
  assert b
  assert not [name for name in estimator.get_variable_names() if "adam" in name and "w" in name]


def test_a_group_may_have_no_weight_decay(tmp_path):
  def after(names):
    groups = [trainer.VariableGroup(names=names, weight_decay=False)]
    optimizer = lambda decay: keras.optimizers.SGD(RATE, weight_decay=decay)
    with_decay = lambda loss: trainer.minimize(optimizer(0.5), loss, groups=groups)
    return values(trained(with_decay, tmp_path / names, "cpu", steps=3))

  none = lambda loss: trainer.minimize(keras.optimizers.SGD(RATE), loss)
  w, _ = values(trained(none, tmp_path / "none", "cpu", steps=3))
  of_b, of_w = after("^b$"), after("^w$")
  np.testing.assert_allclose(of_w[0], w, rtol=0.2)  # b, which has its decay, moves w a little
  assert np.abs(of_b[0]).sum() < np.abs(of_w[0]).sum()


@pytest.mark.parametrize(
  "groups, optimizer, said",
  [
    (dict(names="kernel"), keras.optimizers.SGD, "There are w, b"),
    (dict(names=".", trainable=False), keras.optimizers.SGD, "leave no variable to train"),
    (dict(names="b", weight_decay=False), keras.optimizers.SGD, "needs a Keras optimizer with a"),
  ],
)
def test_groups_that_cannot_be_are_told(groups, optimizer, said, tmp_path):
  group = trainer.VariableGroup(**groups)
  train_op = lambda loss: trainer.minimize(optimizer(RATE), loss, groups=[group])
  with pytest.raises(errors.SettingError, match=said):
    trained(train_op, tmp_path, "cpu")


def test_a_groups_names_must_be_a_regular_expression():
  with pytest.raises(errors.SettingError, match="VariableGroup.names"):
    trainer.VariableGroup(names="(")


def test_statistics_are_exchanged_with_the_weights_that_they_fit(tmp_path, device):
  def model_fn(features, labels, mode, params):
    norm = keras.layers.BatchNormalization(momentum=0.5, name="norm")
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(norm(features["x"], training=True), 1) - labels))
    lookahead = trainer.Lookahead(every=2, decay=0.5, power=0)
    train_op = trainer.minimize(keras.optimizers.SGD(RATE), loss, lookahead=lookahead)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  estimator = programs.estimator(tmp_path, model_fn, device, batch_size=ROWS)
  variables = estimator.train(one_batch, max_steps=4).variables
  # After step 2 the slow mean is 3/4 of the batch's. After step 4 it is half of that and half of
  # 15/16.
  wanted = programs.arrays(ROWS)[0].mean(0) * (3 / 4 + 15 / 16) / 2
  np.testing.assert_allclose(variables["norm/moving_mean"].numpy(), wanted, rtol=1e-5)
  slow = variables["lookahead/norm/moving_mean"].numpy()
  np.testing.assert_array_equal(slow, variables["norm/moving_mean"].numpy())


def test_a_group_may_be_trained_for_some_steps(tmp_path, device):
  def after_two(until):
    groups = [trainer.VariableGroup(names="^b$", until=until)]
    optimizer = lambda: keras.optimizers.SGD(RATE, momentum=0.9)
    train_op = lambda loss: trainer.minimize(optimizer(), loss, groups=groups)
    return trained(train_op, tmp_path / str(until), device, steps=2)

  estimator = after_two(2)
  w, b = values(estimator)
  _, free_b = values(after_two(None))
  assert b == pytest.approx(free_b, rel=1e-6)
  later_w, later_b = values(estimator.train(one_batch, steps=2))
  assert later_b == b
  assert (later_w != w).all()


def test_how_long_a_group_is_trained_must_be_a_duration(tmp_path):
  groups = [trainer.VariableGroup(names="^b$", until="3 moons")]
  train_op = lambda loss: trainer.minimize(keras.optimizers.SGD(RATE), loss, groups=groups)
  with pytest.raises(errors.SettingError, match="VariableGroup.until is '3 moons'"):
    trained(train_op, tmp_path, "cpu")


@pytest.mark.skipif(not hasattr(keras.optimizers, "Muon"), reason="Keras has it from 3.10 on")
@pytest.mark.parametrize(
  "device", long.except_for(["cpu:2"], ["cpu:2", "cpu:8", "xla:8"]), indirect=True
)
def test_muon_is_for_matrices_and_adamw_for_the_rest(tmp_path, device):
  def model_fn(features, labels, mode, params):
    x = keras.layers.Dense(4, name="hidden")(features["x"])
    outputs = keras.layers.Dense(1, name="head")(x)[:, 0]
    loss = tf.reduce_mean(tf.square(outputs - labels))
    optimizer = keras.optimizers.Muon(RATE, exclude_layers=["head"], rms_rate=None)
    group = trainer.VariableGroup(names="bias$", weight_decay=False)
    train_op = trainer.minimize(optimizer, loss, groups=[group])
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  def hidden(on, folder):
    estimator = programs.estimator(tmp_path / folder, model_fn, on, batch_size=ROWS)
    estimator.train(one_batch, max_steps=1)
    first = estimator.variables["hidden/kernel"].numpy()
    names = estimator.get_variable_names()
    assert len([name for name in names if "velocity" in name]) == 3
    estimator.train(one_batch, max_steps=2)
    return first, estimator.variables["hidden/kernel"].numpy()

  runs = hidden(device, "run"), hidden("cpu", "one")
  for before, after in runs:
    # The largest singular value of an update is near 1, whatever the gradient's.
    assert 0.6 < np.linalg.svd((before - after) / RATE)[1][0] < 1.3
  np.testing.assert_allclose(*(after for _, after in runs), atol=1e-6)
