"""Hooks of sessions: what they fetch, and when they are called."""

import importlib

import gin as gin_config
import numpy as np
import pytest
from absl import logging

import trainer.compat.v1 as tf
from tests.compat import programs
from tests.compat.test_estimator import batches
from trainer import errors
from trainer.compat.estimator import early_stopping
from trainer.compat.v1 import estimator as tf_estimator
from trainer.compat.v1 import gin


class Recorder(tf.train.SessionRunHook):
  """Notes what it is told."""

  def __init__(self, *fetches):
    self.fetches, self.told, self.calls = fetches, [], []

  def begin(self):
    self.calls.append("begin")
    self.global_step = tf.train.get_global_step()

  def after_create_session(self, session, coord):
    self.calls.append("session")
    self.first_step = session.run(self.global_step)

  def before_run(self, run_context):
    return tf.train.SessionRunArgs([self.global_step, *self.fetches])

  def after_run(self, run_context, run_values):
    self.told.append(run_values.results)

  def end(self, session):
    self.calls.append("end")


def model_fn(features, labels, mode):
  """With tensors that have names."""
  spec = programs.model_fn(features, labels, mode)
  if mode != tf_estimator.ModeKeys.PREDICT:
    tf.identity(features["x"][0], name="first_row")
    with tf.name_scope("inner"):
      tf.identity(spec.loss, name="loss_again")
  return spec


def test_a_hook_of_an_estimator_sees_every_step(tmp_path):
  hook = Recorder("first_row:0", "inner/loss_again", "loss")
  programs.estimator(tmp_path, fn=model_fn).train(batches(16), hooks=[hook], steps=3)
  assert hook.calls == ["begin", "session", "end"]
  assert hook.first_step == 0
  assert [told[0] for told in hook.told] == [1, 2, 3]
  for (_, row, again, loss), start in zip(hook.told, (0, 16, 32), strict=True):
    np.testing.assert_allclose(row, programs.arrays()[0][start])
    assert again == loss


def test_hooks_of_a_model_fn_fetch_its_tensors_on_every_device(tmp_path):
  hooks = []

  def with_hook(features, labels, mode, params):
    spec = programs.tpu_model_fn(features, labels, mode, params)
    hooks.append(Recorder(spec.loss, features["x"]) if mode == "train" else Recorder(spec.loss))
    return spec._replace(training_hooks=hooks[-1:]) if mode == "train" else spec

  estimator = programs.tpu_estimator(tmp_path, "cpu:2", fn=with_hook, use_tpu=True)
  estimator.train(programs.train_input_fn, steps=4)
  told = hooks[-1].told  # those of the last replica
  assert [values[0] for values in told] == [2, 4]
  assert np.isfinite(told[0][1])
  np.testing.assert_allclose(told[0][2], programs.arrays()[0][24:32])


@pytest.mark.parametrize(
  "use_tpu,iterations,told",
  [(False, 3, [1, 2, 3, 4, 5]), (True, None, [2, 4, 5]), (True, 3, [3, 5])],
)
def test_a_loop_of_several_steps_is_a_tpus(tmp_path, use_tpu, iterations, told):
  given = {} if iterations is None else {"iterations_per_loop": iterations}
  estimator = programs.tpu_estimator(tmp_path, use_tpu=use_tpu, **given)
  hook = Recorder()
  estimator.train(programs.train_input_fn, hooks=[hook], steps=5)
  assert [values[0] for values in hook.told] == told


def test_a_hook_of_an_evaluation_is_told_of_each_batch(tmp_path):
  estimator = programs.estimator(tmp_path, fn=model_fn)
  estimator.train(batches(16), steps=2)
  hook = Recorder("first_row")
  result = estimator.evaluate(batches(20, epochs=1), hooks=[hook])
  assert [told[0] for told in hook.told] == [2, 2, 2]
  for told, start in zip(hook.told, (0, 20, 40), strict=True):
    np.testing.assert_allclose(told[1], programs.arrays()[0][start])
  assert set(result) == {"accuracy", "loss", "mean_loss", "global_step"}


class Deltas(tf.train.SessionRunHook):
  """Reads the weights by a session before each step and after it, as those who watch updates do."""

  def begin(self):
    self.weights = tf.trainable_variables()[0]

  def after_create_session(self, session, coord):
    self.deltas, self.asked = [], 0

  def before_run(self, run_context):
    self.asked += 1
    self.before = run_context.session.run([self.weights])[0]

  def after_run(self, run_context, run_values):
    assert run_values.results is None
    self.deltas.append(float(abs(run_context.session.run(self.weights) - self.before).max()))


def test_a_hook_reads_variables_before_each_step_and_after_it(tmp_path):
  hook = Deltas()
  programs.estimator(tmp_path).train(batches(16), hooks=[hook], steps=3)
  assert len(hook.deltas) == 3
  assert min(hook.deltas) > 0
  assert hook.asked == 3


class Total(tf.train.CheckpointSaverListener):
  """Adds up what a hook counts, in variables of the training."""

  def begin(self):
    with tf.variable_scope("counts", reuse=tf.AUTO_REUSE):
      self.total = tf.get_variable("total", initializer=0, trainable=False)
      self.steps = tf.get_variable("steps", initializer=0, trainable=False)
    self.add = self.total.assign_add(self.steps)
    self.reset = tf.group(self.steps.assign(0))
    self.weights, self.told = tf.trainable_variables(), []

  def before_save(self, session, global_step_value):
    self.told.append(int(session.run(self.add)))

  def after_save(self, session, global_step_value):
    assert session.run([self.reset, self.steps]) == [None, 0]


class Counts(tf.train.SessionRunHook):
  def begin(self):
    with tf.variable_scope("counts", reuse=tf.AUTO_REUSE):
      steps = tf.get_variable("steps", initializer=0, trainable=False)
      tf.get_variable("total", initializer=0, trainable=False)
    self.count = steps.assign_add(1)

  def before_run(self, run_context):
    return tf.train.SessionRunArgs(self.count)

  def after_run(self, run_context, run_values):
    self.counted = run_values.results


def test_saving_listener_runs_operations_on_training_variables(tmp_path):
  config = tf_estimator.RunConfig(save_checkpoints_steps=2, device="cpu")
  estimator = tf_estimator.Estimator(programs.model_fn, str(tmp_path), config)
  listener, hook = Total(), Counts()
  estimator.train(batches(16), hooks=[hook], saving_listeners=[listener], steps=5)
  assert listener.told == [0, 2, 4, 5]
  assert hook.counted == 1  # since the save at step 4
  assert len(listener.weights) == 2
  assert estimator.get_variable_value("counts/total") == 5


def test_gins_hook_keeps_the_configuration_of_each_training(tmp_path):
  @gin.configurable("rate_of_this_test", blacklist=["y"])
  def rate(x, optimizer, y=1):
    assert optimizer is not None
    return x * y

  importlib.import_module("trainer.compat.v1.external_configurables")
  gin_config.parse_config(
    "rate_of_this_test.x = 2\nrate_of_this_test.optimizer = @tf.train.AdamOptimizer"
  )
  assert rate() == 2
  estimator, folder = programs.estimator(tmp_path / "model"), tmp_path / "configurations"
  for _ in range(2):
    estimator.train(batches(16), hooks=[gin.tf.GinConfigSaverHook(str(folder))], steps=3)
  for step in (0, 3):
    assert "rate_of_this_test.x = 2" in (folder / f"operative_config-{step}.gin").read_text()
  assert len(list(folder.glob("events*"))) == 2


def test_a_hook_of_tf_train_may_be_the_base_of_a_programs_own(tmp_path):
  rates, seen = [], []

  class Echo(tf.train.StepCounterHook):
    def after_create_session(self, session, coord):
      super().after_create_session(session, coord)
      seen.append(session.run(self._global_step_tensor))

    def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
      rates.append((global_step, elapsed_steps))
      super()._log_and_record(elapsed_steps, elapsed_time, global_step)

  folder = tmp_path / "rates"
  programs.estimator(tmp_path).train(
    batches(16), hooks=[Echo(every_n_steps=2, output_dir=str(folder))], steps=5
  )
  assert (rates, seen) == ([(3, 2), (5, 2)], [0])
  (written,) = folder.iterdir()
  events = tf.train.summary_iterator(str(written))
  values = [(event.step, value.tag) for event in events for value in event.summary.value]
  assert values == [(3, "global_step/sec"), (5, "global_step/sec")]


def test_a_final_ops_hook_has_values_after_the_last_step(tmp_path):
  def with_hook(features, labels, mode):
    spec = programs.model_fn(features, labels, mode)
    found.append(tf_estimator.FinalOpsHook(tf.train.get_global_step() + 1))
    return spec._replace(training_hooks=[found[-1]])

  found = []
  programs.estimator(tmp_path, fn=with_hook).train(batches(16), steps=2)
  assert found[-1].final_ops_values == 3


def test_tensors_are_logged(tmp_path, monkeypatch):
  lines = []
  monkeypatch.setattr(logging, "info", lambda text, *args: lines.append(text % args))
  hook = tf.train.LoggingTensorHook(
    {"again": "inner/loss_again"}, every_n_iter=2, formatter=lambda values: f"told {len(values)}"
  )
  programs.estimator(tmp_path, fn=model_fn).train(batches(16), hooks=[hook], steps=5)
  assert lines.count("told 1") == 3  # at steps 1, 3 and 5


@pytest.mark.parametrize(("every", "logged"), [({"every_n_secs": 5}, 1), ({}, 0)])
def test_a_hook_that_logs_at_the_end_may_log_by_time_too(monkeypatch, every, logged):
  hook, times = tf.train.LoggingTensorHook(["a"], at_end=True, **every), []
  monkeypatch.setattr(hook, "_log", times.append)
  hook(1, {}, None)
  assert len(times) == logged


def test_a_hook_ends_the_training(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(batches(16), hooks=[tf.train.StopAtStepHook(last_step=3)], steps=10)
  assert estimator.latest_step() == 3
  estimator.train(batches(16), hooks=[tf_estimator.StopAtStepHook(num_steps=2)])
  assert estimator.latest_step() == 5


def test_a_hook_saves_checkpoints(tmp_path):
  estimator = programs.estimator(tmp_path)
  hook = tf_estimator.CheckpointSaverHook(str(tmp_path), save_steps=2)
  estimator.train(batches(16), hooks=[hook], steps=5)
  assert estimator.checkpoint_steps() == [0, 2, 4, 5]


def test_saving_listeners_hear_of_the_first_and_last_checkpoint(tmp_path):
  """As in 2.15, whose hook saves before the first step and after the last."""
  estimator, heard = programs.estimator(tmp_path), []

  class Listener(tf.train.CheckpointSaverListener):
    def before_save(self, session, step):
      heard.append(("before", step))

    def after_save(self, session, step):
      found = estimator.evaluate(batches(16), steps=1)
      heard.append(("after", step, int(found["global_step"])))

    def end(self, session, step):
      heard.append(("end", step))

  hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[Listener()])
  estimator.train(batches(16), hooks=[hook], steps=3)
  wanted = [one for step in (0, 2, 3) for one in (("before", step), ("after", step, step))]
  assert heard == [*wanted, ("end", 3)]


def test_what_cannot_be_fetched_is_refused(tmp_path):
  with pytest.raises(errors.SettingError, match="asks for 'no_such_tensor'"):
    programs.estimator(tmp_path).train(batches(16), hooks=[Recorder("no_such_tensor")], steps=1)


def test_a_training_stops_by_the_metrics_of_its_evaluations(tmp_path, monkeypatch):
  found = {2: {"f1": 0.5}, 4: {"f1": 0.7}, 6: {"f1": 0.6}, 8: {"f1": 0.7}}
  experimental = tf_estimator.experimental
  monkeypatch.setattr(early_stopping, "read_eval_metrics", lambda eval_dir: found)
  made = programs.estimator(tmp_path)

  def stops(make, bound, **settings):
    hook = make(made, "f1", bound, run_every_secs=None, run_every_steps=2, **settings)
    return [step for step in (1, 2, 3) if hook(step, {}, made)]

  # Asked at step 1 and, every second one, at step 3.
  assert stops(tf.contrib.estimator.stop_if_no_increase_hook, 4) == [1, 3]
  assert stops(experimental.stop_if_no_increase_hook, 6) == []
  assert stops(experimental.stop_if_no_decrease_hook, 6) == [1, 3]
  assert stops(experimental.stop_if_no_decrease_hook, 4, min_steps=5) == []
  with pytest.raises(errors.SettingError, match="no metric 'f2'; it has f1"):
    experimental.stop_if_no_increase_hook(made, "f2", 4)(1, {}, made)
  with pytest.raises(ValueError, match="exactly one of"):
    experimental.stop_if_no_increase_hook(made, "f1", 4, run_every_steps=2)


def average_fn(features, labels, mode):
  """w = 1 after one step; its moving average is 0.5."""
  w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
  loss = tf.square(w - 1.0) + 0.0 * tf.reduce_mean(features["x"])
  train_op = None
  if mode == tf_estimator.ModeKeys.TRAIN:
    train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss, tf.train.get_global_step())
    average = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([train_op]):
      train_op = average.apply(tf.trainable_variables())
  predictions = features["x"][:, 0] * 0.0 + w
  metrics = {"w": tf.metrics.mean(w)}
  return tf_estimator.EstimatorSpec(
    mode, loss=loss, train_op=train_op, predictions=predictions, eval_metric_ops=metrics
  )


class LoadAverages(tf.train.SessionRunHook):
  def __init__(self, folder):
    self.folder = folder

  def begin(self):
    self.saver = tf.train.Saver(tf.train.ExponentialMovingAverage(0.5).variables_to_restore())

  def after_create_session(self, session, coord):
    self.saver.restore(session, tf.train.latest_checkpoint(self.folder))


class Assign(tf.train.SessionRunHook):
  def begin(self):
    self.op = next(one for one in tf.global_variables() if one.op.name == "w").assign(0.25)

  def after_create_session(self, session, coord):
    session.run(self.op)


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
@pytest.mark.parametrize(
  ("hook", "value"), [(LoadAverages, 0.5), (lambda folder: Assign(), 0.25)], ids=["saver", "assign"]
)
def test_a_hooks_values_come_after_the_checkpoints(tmp_path, device, hook, value):
  estimator = programs.estimator(tmp_path, fn=average_fn, device=device)
  estimator.train(batches(16), steps=1)
  folder = str(tmp_path)
  assert estimator.evaluate(batches(16), steps=2, hooks=[hook(folder)])["w"] == value
  assert estimator.evaluate(batches(16), steps=2)["w"] == 1.0
  found = estimator.predict(batches(16), hooks=[hook(folder)])
  first = next(found)
  # Another call must not change what the prediction goes on with, nor see it.
  assert estimator.evaluate(batches(16), steps=2)["w"] == 1.0
  assert {float(first), *(float(next(found)) for _ in range(40))} == {value}
  assert float(next(estimator.predict(batches(16)))) == 1.0
  assert estimator.get_variable_value("w") == 1.0


@pytest.mark.parametrize("fails", [True, False])
def test_a_hook_of_tensorflow_ends_a_training_with_a_nan(tmp_path, fails):
  def model_fn(features, labels, mode):
    step = tf.train.get_global_step()
    w = tf.get_variable("w", [])
    loss, watched = w * 0.0, tf.where(step < 2, 0.0, np.nan)
    train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, step)
    hook = tf.train.NanTensorHook(watched, fail_on_nan_loss=fails)
    return tf_estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

  estimator = tf_estimator.Estimator(model_fn, str(tmp_path))
  if fails:
    with pytest.raises(tf_estimator.NanLossDuringTrainingError):
      estimator.train(batches(16), steps=6)
  else:
    estimator.train(batches(16), steps=6)
    assert estimator.get_variable_value("global_step") < 6
