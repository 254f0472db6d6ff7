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
from tests.trainer.optimization import rows
from trainer import errors

v1 = tf.compat.v1


def clipped(norm):
  def clip(gradient_w, gradient_b):
    factor = min(1.0, norm / np.sqrt(np.sum(gradient_w**2) + gradient_b**2))
    return gradient_w * factor, gradient_b * factor

  return clip


OPTIMIZERS = {
  "keras": lambda: keras.optimizers.SGD(0.1),
  "keras_with_a_schedule": lambda: keras.optimizers.SGD(
    keras.optimizers.schedules.PiecewiseConstantDecay([100], [0.1, 0.0])
  ),
  "v1": lambda: v1.train.GradientDescentOptimizer(0.1),
  "cross_shard": lambda: trainer.CrossShardOptimizer(v1.train.GradientDescentOptimizer(0.1)),
  "cross_shard_of_keras": lambda: trainer.CrossShardOptimizer(
    keras.optimizers.SGD(0.1), reduction="weighted_mean"
  ),
}


def _trainable():
  return v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)


def minimized(name, **settings):
  return lambda loss, variables: trainer.minimize(
    OPTIMIZERS[name](), loss, var_list=variables, **settings
  )


@long.ON_TWO_CORES
def test_a_step_follows_the_mean_gradient_of_the_global_batch(device, tmp_path):
  # tests/trainer/optimization/test_schedules.py has the schedules.
  train_ops = {name: minimized(name) for name in OPTIMIZERS if "schedule" not in name}
  train_ops["v1_directly"] = lambda loss, variables: v1.train.GradientDescentOptimizer(
    0.1
  ).minimize(loss, v1.train.get_global_step(), variables)
  # A gradient that is small enough is not clipped.
  train_ops["small"] = minimized("keras", clip_norm=1e6)
  rows.assert_lines(train_ops, tmp_path, device, rows.expected(0.1, 2))


def test_an_optimizer_of_keras_may_be_called_directly(tmp_path):
  def train_op(loss):
    pairs = zip(tf.gradients(loss, _trainable()), _trainable(), strict=True)
    return keras.optimizers.SGD(0.1).apply_gradients(pairs)

  estimator = rows.trained(train_op, tmp_path, "cpu:2", steps=2)
  rows.assert_close(estimator, rows.expected(0.1, 2))
  assert estimator.latest_step() == 2


@pytest.mark.parametrize("name", long.except_for(["keras", "v1"], OPTIMIZERS))
def test_a_step_on_one_core_follows_the_gradient(name, tmp_path):
  """The model has one optimizer, which finds the variables by itself."""
  train_op = lambda loss: trainer.minimize(OPTIMIZERS[name](), loss)
  estimator = rows.trained(train_op, tmp_path, "cpu", steps=2)
  rows.assert_close(estimator, rows.expected(0.1, 2))


@long.ON_TWO_CORES
def test_clipping_is_of_the_combined_gradient(tmp_path, device):
  train_ops = {name: minimized(name, clip_norm=0.5) for name in ("keras", "v1")}
  # Keras clips this line's gradients itself.
  train_ops["by_keras"] = lambda loss, variables: trainer.minimize(
    keras.optimizers.SGD(0.1, global_clipnorm=0.5), loss, var_list=variables
  )
  rows.assert_lines(train_ops, tmp_path, device, rows.expected(0.1, 2, clipped(0.5)))


# Keras applies their gradients under a condition.
CONDITIONAL = {
  "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
  "accumulation": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
}
UPDATES_IN_TWO_STEPS = {"loss scale": 2, "accumulation": 1}


@pytest.mark.parametrize("name", CONDITIONAL)
def test_optimizers_that_decide_in_the_step_work_on_one_core(name, tmp_path):
  estimator = rows.trained(
    lambda loss: trainer.minimize(CONDITIONAL[name](), loss), tmp_path, "cpu", steps=2
  )
  rows.assert_close(estimator, rows.expected(0.1, UPDATES_IN_TWO_STEPS[name]))


def test_a_loss_is_scaled_by_the_scale_of_the_moment(tmp_path):
  """Keras divides the gradients by it; a model_fn makes its optimizer anew in each trace."""

  def train_op(loss):
    optimizer = keras.optimizers.LossScaleOptimizer(
      keras.optimizers.SGD(0.1), initial_scale=4.0, dynamic_growth_steps=1
    )
    return trainer.minimize(optimizer, loss)

  estimator = rows.trained(train_op, tmp_path, "cpu", steps=3)
  rows.assert_close(estimator, rows.expected(0.1, 3))
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
      rows.trained(train_op, tmp_path, "cpu:2")


@pytest.mark.long_on_several_cores
def test_a_sum_over_the_replicas_is_that_many_means(tmp_path, device):
  def train_op(loss):
    return trainer.CrossShardOptimizer(
      v1.train.GradientDescentOptimizer(0.01), reduction="sum"
    ).minimize(loss)

  replicas = int(device.partition(":")[2] or 1)
  rows.assert_close(rows.trained(train_op, tmp_path, device), rows.expected(0.01 * replicas, 1))


@long.ON_TWO_CORES
def test_accumulated_gradients_are_applied_at_the_last_step(tmp_path, device):
  def train_op(loss):
    return trainer.minimize(keras.optimizers.SGD(0.1), loss, accumulate_steps=3)

  estimator = rows.trained(train_op, tmp_path, device, steps=2)
  rows.assert_close(estimator, rows.expected(0.1, 0))
  estimator.train(rows.one_batch, steps=1)
  rows.assert_close(estimator, rows.expected(0.1, 1))
  estimator.train(rows.one_batch, steps=4)
  rows.assert_close(estimator, rows.expected(0.1, 2))
  assert estimator.variables["sgd/iteration"].numpy() == 2
  assert estimator.latest_step() == 7


def test_accumulation_goes_on_where_a_checkpoint_left_it(tmp_path):
  def train_op(loss):
    return trainer.minimize(keras.optimizers.SGD(0.1), loss, accumulate_steps=3, clip_norm=0.5)

  rows.trained(train_op, tmp_path, "cpu", steps=2)
  again = rows.trained(train_op, tmp_path, "cpu", steps=1)
  rows.assert_close(again, rows.expected(0.1, 1, clipped(0.5)))


def test_var_list_is_all_that_is_trained(tmp_path):
  def train_op(loss):
    return trainer.minimize(
      keras.optimizers.SGD(0.1),
      loss,
      var_list=[variable for variable in _trainable() if "w" in variable.name],
    )

  w, b = rows.values(rows.trained(train_op, tmp_path, "cpu"))
  assert b == 0
  assert w.any()


def test_the_global_step_counts_once_however_it_is_given(tmp_path):
  estimator = rows.trained(
    lambda loss: trainer.minimize(
      v1.train.GradientDescentOptimizer(0.1), loss, v1.train.get_global_step()
    ),
    tmp_path,
    "cpu",
    steps=3,
  )
  assert estimator.latest_step() == 3


@pytest.mark.parametrize("on", long.except_for(["cpu:2"], ["cpu", "cpu:2", "xla:2"]))
def test_muon_trains_a_plain_variable_as_one_of_keras(on, tmp_path):
  """Muon chooses its update by a variable's path, which a tf.Variable lacks."""

  def model_fn(features, labels, mode, params):
    matrices = {
      "plain": tf.Variable(tf.eye(programs.WIDTH, 3), name="plain"),
      "of_keras": keras.Variable(np.eye(programs.WIDTH, 3), dtype="float32", name="of_keras"),
      "embedding": tf.Variable(tf.eye(programs.WIDTH, 3), name="embedding"),
    }
    products = [tf.matmul(features["x"], tf.convert_to_tensor(one)) for one in matrices.values()]
    loss = tf.add_n([tf.reduce_mean(tf.square(each - labels[:, None])) for each in products])
    optimizer = keras.optimizers.Muon(0.1, weight_decay=0.1)
    train_op = trainer.minimize(optimizer, loss, var_list=list(matrices.values()))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  estimator = programs.estimator(tmp_path, model_fn, on).train(programs.train_input, steps=2)
  plain, of_keras, embedding = map(estimator.get_variable_value, ("plain", "of_keras", "embedding"))
  np.testing.assert_allclose(plain, of_keras, rtol=0, atol=1e-6)
  # Muon leaves embeddings to AdamW.
  assert np.abs(embedding - plain).max() > 0.01


EMBEDDINGS = {
  "keras": lambda loss: trainer.minimize(keras.optimizers.SGD(0.5), loss),
  "v1": lambda loss: trainer.minimize(v1.train.GradientDescentOptimizer(0.5), loss),
  "clipped": lambda loss: trainer.minimize(keras.optimizers.SGD(0.5), loss, clip_norm=1e6),
  "accumulated": lambda loss: trainer.minimize(keras.optimizers.SGD(0.5), loss, accumulate_steps=2),
}


@pytest.mark.parametrize(
  "name, on",
  long.except_for(
    [("keras", "cpu"), ("clipped", "cpu"), ("accumulated", "cpu"), ("v1", "cpu:2")],
    itertools.product(EMBEDDINGS, ["cpu", "cpu:2"]),
  ),
)
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
    rows.program(lambda loss: trainer.minimize(keras.optimizers.SGD(schedule), loss)),
    **programs.fixed_loops(1),
  ).train(
    programs.train_input,
    steps=4,
    hooks=[lambda step, metrics, _: rates.append(metrics["learning_rate"])],
  )
  assert rates == [0.5, 0.5, 0.25, 0.125]


@pytest.mark.parametrize(
  "make",
  [OPTIMIZERS["keras"], OPTIMIZERS["v1"], OPTIMIZERS["cross_shard"]],
  ids=["keras", "v1", "cross shard"],
)
def test_the_learning_rate_is_told(make, tmp_path):
  seen = []
  programs.estimator(tmp_path, rows.program(lambda loss: trainer.minimize(make(), loss))).train(
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


@pytest.mark.skipif(not hasattr(keras.optimizers, "Muon"), reason="Keras has it from 3.10 on")
@pytest.mark.parametrize(
  "device", long.except_for(["cpu:2"], ["cpu:2", "cpu:8", "xla:8"]), indirect=True
)
def test_muon_is_for_matrices_and_adamw_for_the_rest(tmp_path, device):
  def model_fn(features, labels, mode, params):
    x = keras.layers.Dense(4, name="hidden")(features["x"])
    outputs = keras.layers.Dense(1, name="head")(x)[:, 0]
    loss = tf.reduce_mean(tf.square(outputs - labels))
    optimizer = keras.optimizers.Muon(rows.RATE, exclude_layers=["head"], rms_rate=None)
    group = trainer.VariableGroup(names="bias$", weight_decay=False)
    train_op = trainer.minimize(optimizer, loss, groups=[group])
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  def hidden(on, folder):
    estimator = programs.estimator(tmp_path / folder, model_fn, on, batch_size=rows.ROWS)
    estimator.train(rows.one_batch, max_steps=1)
    first = estimator.variables["hidden/kernel"].numpy()
    names = estimator.get_variable_names()
    assert len([name for name in names if "velocity" in name]) == 3
    estimator.train(rows.one_batch, max_steps=2)
    return first, estimator.variables["hidden/kernel"].numpy()

  runs = hidden(device, "run"), hidden("cpu", "one")
  for before, after in runs:
    # The largest singular value of an update is near 1, whatever the gradient's.
    assert 0.6 < np.linalg.svd((before - after) / rows.RATE)[1][0] < 1.3
  np.testing.assert_allclose(*(after for _, after in runs), atol=1e-6)
