"""A model_fn runs what is fetched, as in a session: variables after five steps are those of 2.15.

graphs_2_15.json has the values of TensorFlow 2.15, see graph_cases.py. `tests.slow.legacy_graphs`
runs all cases in more ways.
"""

import json
import pathlib

import keras
import numpy as np
import pytest

import trainer
import trainer.compat.v1 as tf
from tests import long
from tests.compat import graph_cases
from trainer import errors

EXPECTED = json.loads((pathlib.Path(__file__).parent / "graphs_2_15.json").read_text())

# One of each kind of what is fetched and what is not.
QUICK = [
  "dict_of_kinds_of_optimizers",
  "the_later_assignment_of_a_variable",
  "a_copy_beside_the_optimizer",
  "batch_norm_called_twice",
  "a_gradient_through_a_loop",
  "a_gradient_through_a_loop_of_unknown_sizes",
  "clipped_gradients_of_parts_in_a_loop",
  "regularizers_of_layers_beside_those_of_scopes",
  "a_branch_that_waits",
  "a_function_runs_all",
  "python_code_for_nobody",
  "batch_norm_of_one_scope_fetched",
  "keras_batch_norm_fetched",
  "a_merged_summary_for_nobody",
  "a_hook_that_halves_the_rate",
  "a_hook_that_fetches_an_operation",
  "an_embedding_that_is_fed",
  "an_init_fn_once_in_two_trainings",
]
QUICK_ON_TWO_CORES = [
  "dict_of_optimizers",
  "an_init_of_a_hook_in_each_training",
  "batch_norm_called_twice",
  "minimizes_in_a_branch",
  "clipped_gradients_of_parts_in_a_loop",
]


def check(name, device, tmp_path, monkeypatch):
  monkeypatch.setenv("OCTET_DEVICE", device)
  found = graph_cases.train(tf, name, str(tmp_path))
  assert sorted(found) == sorted(EXPECTED[name])
  for variable, value in EXPECTED[name].items():
    np.testing.assert_allclose(found[variable], value, rtol=1e-5, atol=1e-6, err_msg=variable)


@pytest.mark.parametrize("name", long.except_for(QUICK, graph_cases.CASES))
def test_the_variables_are_those_of_2_15(name, tmp_path, monkeypatch):
  check(name, "cpu", tmp_path, monkeypatch)


@pytest.mark.parametrize("name", long.except_for(QUICK_ON_TWO_CORES, graph_cases.CASES))
def test_the_variables_are_those_of_2_15_on_two_cores(name, tmp_path, monkeypatch):
  check(name, "cpu:2", tmp_path, monkeypatch)


def test_a_loop_that_counts_has_a_gradient_on_xla_devices(tmp_path, monkeypatch):
  check("a_gradient_through_a_loop", "xla:2", tmp_path, monkeypatch)


# (limit of what counts, what it counts by, how often); None: by what is known in the step alone.
LOOPS = [(5, 2, 3), (3, None, 3), (3, 1, 3), (2.5, 1, 3), ((3, 2), 1, 2), (0, 1, 0)]


@pytest.mark.parametrize(("limit", "step", "factor"), long.except_for(LOOPS[:2], LOOPS))
def test_a_loop_on_xla_devices_runs_until_its_condition_fails(
  tmp_path, monkeypatch, limit, step, factor
):
  monkeypatch.setenv("OCTET_DEVICE", "xla:2")

  def model_fn(features, labels, mode):
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())

    def holds(i, value):
      if isinstance(limit, tuple):
        return tf.logical_and(i < limit[0], i < limit[1])
      return tf.cast(i, tf.float32) < limit if isinstance(limit, float) else i < limit

    def body(i, value):
      by = tf.cast(tf.reduce_max(features), tf.int32) if step is None else step
      return i + by, value + features

    _, value = tf.while_loop(holds, body, [0, tf.zeros_like(features)])
    loss = tf.reduce_mean(value) + 0.0 * w
    train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
  data = np.ones([4], np.float32)
  result = estimator.train(
    lambda: tf.data.Dataset.from_tensors((data, data)).repeat(), steps=1
  ).evaluate(lambda: tf.data.Dataset.from_tensors((data, data)))
  assert result["loss"] == factor


def train_with(tmp_path, hook, make):
  """Trains for two steps, with a hook that `make` finished in the model_fn."""

  def model_fn(features, labels, mode):
    p = graph_cases.Program(tf, features, labels)
    loss = p.loss(*p.weights())
    train_op = p.sgd(loss)
    make(p, loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

  estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
  data = np.ones([4], np.float32)
  estimator.train(lambda: tf.data.Dataset.from_tensors((data, data)).repeat(), steps=2)
  return estimator


class Hook(tf.train.SessionRunHook):
  """A hook whose methods a test gives."""

  def __init__(self, **methods):
    vars(self).update(methods)


def test_a_fetch_of_an_evaluations_batch_is_refused_at_the_end(tmp_path):
  hook = Hook()

  def model_fn(features, labels, mode):
    p = graph_cases.Program(tf, features, labels)
    loss = p.loss(*p.weights())
    hook.end = lambda session: session.run(loss)
    train_op = p.sgd(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, evaluation_hooks=[hook])

  estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
  data = np.ones([4], np.float32)
  estimator.train(lambda: tf.data.Dataset.from_tensors((data, data)), steps=1)
  with pytest.raises(errors.SettingError, match="which needs .* but only a step has a value"):
    estimator.evaluate(lambda: tf.data.Dataset.from_tensors((data, data)))


class TrainsPart(tf.train.SessionRunHook):
  """Runs an operation so many times before each step, or after it; then notes a loss."""

  def __init__(self, op, times, loss, losses):
    self.op, self.times, self.loss, self.losses = op, times, loss, losses

  def before_run(self, context):
    for _ in range(self.times):
      context.session.run(self.op)
    if self.loss is not None:
      self.losses.append(context.session.run(self.loss))

  def after_run(self, context, values):
    if not self.times:
      context.session.run(self.op)


def adversaries(features, labels, mode, params):
  """A generator and a critic, which hooks train in turns, each on batches of its own."""
  constant = tf.constant_initializer
  with tf.variable_scope("g"):
    z = tf.layers.dense(features, 2, kernel_initializer=constant(0.3))
  with tf.variable_scope("d"):
    y = tf.layers.dense(z, 1, kernel_initializer=constant(0.2), bias_initializer=constant(0.1))
  of_g, of_d = tf.trainable_variables("g"), tf.trainable_variables("d")
  loss = tf.reduce_mean(tf.square(y - labels))
  critic = tf.reduce_mean(tf.abs(y + labels)) + tf.add_n([tf.nn.l2_loss(one) for one in of_d])
  train_g = tf.train.AdamOptimizer(0.01).minimize(loss, var_list=of_g)
  train_d = tf.train.AdamOptimizer(0.02).minimize(critic, var_list=of_d)
  losses = params["losses"]
  hooks = [(train_g, 1, None), (train_d, 2, critic), (train_d, 0, None)]
  return tf.estimator.EstimatorSpec(
    mode,
    loss=loss,
    train_op=tf.train.get_global_step().assign_add(1),
    training_hooks=[TrainsPart(*one, losses) for one in hooks],
  )


# Of TensorFlow 2.15.1: 20 batches, of which a step and its hooks take six.
CRITIC = [1.448675156, 3.827871799, 6.124348164, 0.387346774, 2.677695513]


@pytest.mark.parametrize(
  ("device", "is_endless", "step", "kernel"),
  [
    ("cpu", True, 5, [-0.08688565, -0.08688565]),
    ("cpu", False, 3, [-0.00096259, -0.00096259]),
    ("cpu:2", True, 5, [-0.08688565, -0.08688565]),
  ],
)
def test_what_hooks_run_takes_batches_of_its_own(
  tmp_path, caplog, device, is_endless, step, kernel
):
  def input_fn():
    x = np.arange(40, dtype=np.float32).reshape(40, 1) / 10
    data = tf.data.Dataset.from_tensor_slices((x, x * 2))
    return (data.repeat() if is_endless else data).batch(2, drop_remainder=True)

  losses = []

  class Params(dict):
    def __deepcopy__(self, memo):
      return self

  estimator = tf.estimator.Estimator(
    adversaries,
    config=tf.estimator.RunConfig(str(tmp_path), device=device, save_checkpoints_steps=100),
    params=Params(losses=losses),
  )
  estimator.train(input_fn, steps=5)
  assert estimator.get_variable_value("global_step") == step
  np.testing.assert_allclose(
    estimator.get_variable_value("d/dense/kernel").ravel(), kernel, atol=2e-7
  )
  if device == "cpu":  # of several cores it is the loss of one
    np.testing.assert_allclose(losses, CRITIC[:step], rtol=2e-7)
  assert "changes none of" not in caplog.text  # hooks train


def test_a_hook_that_feeds_a_step_is_refused(tmp_path):
  hook = Hook()

  def make(p, loss):
    given = tf.placeholder(tf.float32, [])
    hook.before_run = lambda context: tf.train.SessionRunArgs(loss, feed_dict={given: 1.0})

  with pytest.raises(errors.SettingError, match="gives .* values in before_run"):
    train_with(tmp_path, hook, make)


def test_a_hook_that_assigns_only_in_some_steps_is_refused(tmp_path):
  hook, asked = Hook(), []

  def make(p, loss):
    made = p.state("seen").assign_add(1.0)

    def before_run(context):
      asked.append(context)
      return tf.train.SessionRunArgs(made) if len(asked) < 3 else None

    hook.before_run = before_run

  with pytest.raises(errors.SettingError, match="in some steps and not in others"):
    train_with(tmp_path, hook, make)


def test_a_session_returns_the_structure_of_its_fetches(tmp_path):
  hook, found = Hook(), []

  def make(p, loss):
    state = p.state("state", 2.0)
    other = p.state("other", 5.0)
    fetches = {"op": tf.group(other.assign_add(1.0)), "more": [p.step, state.assign_add(1.0)]}
    hook.end = lambda session: found.append(session.run(fetches))

  train_with(tmp_path, hook, make)
  assert found == [{"op": None, "more": [2, 3.0]}]


def test_an_assignment_at_the_end_changes_no_checkpoint(tmp_path):
  hook, found = Hook(), []

  def model_fn(features, labels, mode):
    p = graph_cases.Program(tf, features, labels)
    w, b = p.weights()
    reset, loss = w.assign(100.0), p.loss(w, b)
    hook.end = lambda session: found.append(session.run(reset))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=p.sgd(loss), training_hooks=[hook])

  estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
  data = np.ones([4], np.float32)
  estimator.train(lambda: tf.data.Dataset.from_tensors((data, data)).repeat(), steps=2)
  assert found == [100.0]
  assert estimator.get_variable_value("w") < 1
  assert estimator.evaluate(lambda: tf.data.Dataset.from_tensors((data, data)))["loss"] < 1


def test_a_hook_restores_a_checkpoint_in_its_session(tmp_path):
  with tf.Graph().as_default(), tf.Session() as session:
    tf.get_variable("there", initializer=7.0)
    session.run(tf.global_variables_initializer())
    path = tf.train.Saver().save(session, str(tmp_path / "first"))
  hook = Hook()

  def make(p, loss):
    saver = tf.train.Saver({"there": p.state("state")})
    hook.after_create_session = lambda session, coord: saver.restore(session, path)

  assert train_with(tmp_path / "model", hook, make).get_variable_value("state") == 7.0


def test_a_keras_layer_whose_updates_nobody_fetches_is_told(tmp_path, caplog):
  def make(p, loss):
    layer = tf.keras.layers.BatchNormalization(name="norm")
    layer(p.x[:, None], training=True)

  estimator = train_with(tmp_path, Hook(), make)
  np.testing.assert_array_equal(estimator.get_variable_value("norm/moving_mean"), [0.0])
  (told,) = [line for line in caplog.messages if "a Keras layer" in line]
  assert "test_graph_meaning.py:" in told
  assert "layer.updates" in told


def test_a_summary_that_changes_variables_is_told_and_left_out(tmp_path, caplog):
  def make(p, loss):
    tf.summary.scalar("count", p.state("seen").assign_add(1.0))

  estimator = train_with(tmp_path, Hook(), make)
  assert estimator.get_variable_value("seen") == 0.0
  assert any("does not write the summary 'count'" in line for line in caplog.messages)


def apply(optimizer, loss, w):
  optimizer.apply(tf.gradients(loss, [w]), [w])


def minimize_scaled(optimizer, loss, w):
  trainer.minimize(keras.optimizers.LossScaleOptimizer(optimizer), loss)  # in a branch


@pytest.mark.parametrize("call", [apply, minimize_scaled])
def test_an_optimizer_of_keras_runs_where_it_is_called(call, tmp_path):
  def model_fn(features, labels, mode):
    p = graph_cases.Program(tf, features, labels)
    w = p.variable("w")
    loss = p.loss(w)
    call(keras.optimizers.SGD(0.1), loss, w)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=p.count())

  estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
  data = np.ones([4], np.float32)
  estimator.train(lambda: tf.data.Dataset.from_tensors((data, data)).repeat(), steps=1)
  np.testing.assert_allclose(estimator.get_variable_value("w"), 0.2)
