"""tf.contrib.learn: experiments of a tf.estimator.Estimator, and parts of recurrent networks."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from trainer.compat.v1 import contrib
from trainer.compat.v1.contrib.learn.python.learn import learn_runner


class Counting(tf.train.SessionRunHook):
  def __init__(self):
    self.sessions = self.steps = 0

  def after_create_session(self, session, coord):
    self.sessions += 1

  def after_run(self, run_context, run_values):
    self.steps += 1


def model_fn(features, labels, mode, params):
  loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1))
  train_op = tf.train.GradientDescentOptimizer(params.rate).minimize(
    loss, tf.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
  x = np.arange(8, dtype=np.float32).reshape(4, 2)
  return tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(2).repeat()


def experiment_fn(train_hook, eval_hook, **settings):
  def make(run_config, hparams):
    estimator = tf.estimator.Estimator(model_fn, config=run_config, params=hparams)
    made = contrib.learn.Experiment(
      estimator,
      input_fn,
      input_fn,
      train_steps=6,
      eval_steps=3,
      train_monitors=[train_hook],
      eval_hooks=[eval_hook],
      eval_delay_secs=0,
      **settings,
    )
    made.extend_train_hooks([tf.train.StopAtStepHook(last_step=100)])
    return made

  return make


def run(tmp_path, schedule, train_hook, eval_hook, **settings):
  return learn_runner.run(
    experiment_fn(train_hook, eval_hook, **settings),
    run_config=contrib.learn.RunConfig(model_dir=str(tmp_path), save_checkpoints_steps=2),
    schedule=schedule,
    hparams=contrib.training.HParams(rate=1e-3),
  )


@pytest.mark.parametrize(
  ("schedule", "settings", "evaluations"),
  [
    (None, {}, 3),  # at the checkpoints of the steps 2, 4 and 6
    ("train_and_evaluate", {"min_eval_frequency": 0}, 1),
    ("train", {}, 0),
  ],
)
def test_an_experiment_trains_and_evaluates(tmp_path, schedule, settings, evaluations):
  train_hook, eval_hook = Counting(), Counting()
  found = run(tmp_path, schedule, train_hook, eval_hook, **settings)
  assert (train_hook.steps, eval_hook.sessions) == (6, evaluations)
  assert eval_hook.steps == 3 * evaluations
  assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-6")
  if evaluations:
    metrics, exports = found
    assert (metrics["global_step"], exports) == (6, [])
    again = run(tmp_path, "evaluate", train_hook, eval_hook)
    assert again["loss"] == pytest.approx(metrics["loss"], rel=1e-6)


@pytest.mark.parametrize(
  ("settings", "told"),
  [
    ({"eval_metrics": {}}, "`eval_metrics` must be None with `tf.estimator.Estimator`"),
    ({"export_strategies": []}, r"give an estimator.LatestExporter to the EvalSpec"),
  ],
)
def test_settings_of_older_estimators_say_what_to_use(tmp_path, settings, told):
  with pytest.raises(ValueError, match=told):
    run(tmp_path, "train", Counting(), Counting(), **settings)
  assert not list(tmp_path.iterdir())


def test_an_argument_that_no_experiment_had_is_an_error(tmp_path):
  with pytest.raises(TypeError, match="unexpected argument: evaluation_steps"):
    run(tmp_path, "train", Counting(), Counting(), evaluation_steps=3)


def test_a_runner_says_what_it_needs(tmp_path):
  config = contrib.learn.RunConfig(model_dir=str(tmp_path))
  with pytest.raises(ValueError, match="Give output_dir or run_config; got None and None"):
    learn_runner.run(lambda folder: None)
  with pytest.raises(ValueError, match="Must specify a model directory"):
    learn_runner.run(lambda *_: None, run_config=contrib.learn.RunConfig())
  with pytest.raises(TypeError, match="did not return an Experiment instance, got .*NoneType"):
    learn_runner.run(lambda *_: None, run_config=config)
  with pytest.raises(ValueError, match="non-existent task local_run. Octet has train, evaluate"):
    run(tmp_path, "local_run", Counting(), Counting())


def test_a_runner_gives_the_folder_to_an_older_experiment_fn(tmp_path):
  def make(output_dir):
    config = contrib.learn.RunConfig(model_dir=output_dir)
    return experiment_fn(Counting(), Counting())(config, contrib.training.HParams(rate=1e-3))

  learn_runner.run(make, str(tmp_path), "train")
  assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-6")


def test_modules_inside_of_contrib_learn():
  from trainer.compat.v1.contrib.learn.python.learn.estimators import model_fn as older
  from trainer.compat.v1.contrib.learn.python.learn.estimators import run_config

  assert older.ModeKeys is contrib.learn.ModeKeys
  assert run_config.RunConfig is contrib.learn.RunConfig


def test_there_is_no_strategy_outside_of_a_scope():
  assert not contrib.distribute.has_distribution_strategy()
