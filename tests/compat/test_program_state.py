"""What a program keeps on objects of its own is as after one call of its model_fn, as in 2.15."""

import functools

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests import long

DEVICES = ["cpu", "cpu:2", "xla:2"]

_RANDOM = np.random.RandomState(0)
X = _RANDOM.randn(20, 3).astype("float32")
Y = (X @ [[1.0], [2.0], [-1.0]] > 0).astype("float32")


def data(batch=4, repeat=True):
  dataset = tf.data.Dataset.from_tensor_slices((X, Y))
  return (dataset.repeat() if repeat else dataset).batch(batch)


class Model:
  """A model that counts its calls and keeps all that it makes."""

  rate = 0.1

  def __init__(self):
    self.calls = 0
    self.losses = []
    self.seen = {}
    self.tags = set()

  def model_fn(self, features, labels, mode):
    self.calls += 1
    self.mode = mode
    self.losses = [] if mode == "eval" else self.losses
    self.y = tf.layers.dense(features, 1, kernel_initializer=tf.constant_initializer(0.1), name="d")
    self.loss = tf.reduce_mean((self.y - labels) ** 2)
    self.losses.append(self.loss)
    self.seen[mode] = self.seen.get(mode, 0) + 1
    self.tags.add(mode)
    self.optimizer = tf.train.MomentumOptimizer(self.rate, 0.9)
    step = tf.train.get_global_step()
    self.train_op = self.optimizer.minimize(tf.add_n(self.losses[-1:]), step)
    self.slot = self.optimizer.get_slot(tf.trainable_variables()[0], "momentum")
    self.right = tf.cast(self.y > 0.5, tf.float32)
    return tf.estimator.EstimatorSpec(
      mode,
      loss=self.loss,
      train_op=self.train_op,
      eval_metric_ops={
        "accuracy": tf.metrics.accuracy(labels, self.right),
        "rate": tf.metrics.mean(self.rate * len(self.losses)),
      },
    )


class Watches(tf.train.SessionRunHook):
  """Fetches what the model keeps."""

  def __init__(self, model):
    self.model, self.losses = model, []

  def before_run(self, context):
    return tf.train.SessionRunArgs({"loss": self.model.loss, "slot": self.model.slot})

  def after_run(self, context, values):
    self.losses.append(values.results["loss"])


# test_an_evaluation_is_traced_once_where_nothing_has_changed has one core in the gate.
@pytest.mark.parametrize("device", long.except_for(DEVICES[1:2], DEVICES))
def test_a_model_object_is_as_in_2_15(tmp_path, monkeypatch, device):
  monkeypatch.setenv("OCTET_DEVICE", device)
  model = Model()
  estimator, hook = tf.estimator.Estimator(model.model_fn, str(tmp_path)), Watches(model)
  estimator.train(data, hooks=[hook], steps=3)
  result = estimator.evaluate(lambda: data(3, False))
  assert (model.calls, model.seen, model.tags) == (2, dict(train=1, eval=1), {"train", "eval"})
  assert (result["accuracy"], result["rate"]) == pytest.approx((0.85, 0.1))
  model.rate = 0.05
  model.losses = []
  estimator.train(data, hooks=[hook], steps=3)
  result = estimator.evaluate(lambda: data(3, False))
  assert (model.calls, model.seen, model.mode) == (4, dict(train=2, eval=2), "eval")
  assert (result["accuracy"], result["rate"]) == pytest.approx((0.85, 0.05))
  assert len(hook.losses) == 6
  kernel = estimator.get_variable_value("d/kernel").ravel()
  np.testing.assert_allclose(kernel, [0.11161844, 0.41669267, -0.3210286], atol=1e-6)  # of 2.15.1


def test_what_a_function_keeps_around_it_is_as_in_2_15(tmp_path, monkeypatch):
  monkeypatch.setenv("OCTET_DEVICE", "cpu:2")
  calls, made = 0, {}

  def model_fn(features, labels, mode, kept):
    nonlocal calls
    calls += 1
    made.setdefault("ys", []).append(tf.layers.dense(features, 1))
    kept.append(tf.reduce_mean((tf.add_n(made["ys"]) - labels) ** 2))
    train_op = tf.train.AdamOptimizer(0.1).minimize(tf.add_n(kept), tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=kept[0], train_op=train_op)

  kept = []
  estimator = tf.estimator.Estimator(functools.partial(model_fn, kept=kept), str(tmp_path))
  estimator.train(data, steps=2)
  assert (calls, len(kept), len(made["ys"])) == (1, 1, 1)


class Config(dict):
  """A dict whose items are attributes, as many programs write it."""

  def __getattr__(self, name):
    return self[name]

  def __setattr__(self, name, value):
    self[name] = value


class Kept(list):
  """A list of a program's own class."""


def test_a_dict_and_a_list_of_own_classes_keep_their_content(tmp_path, monkeypatch):
  monkeypatch.setenv("OCTET_DEVICE", "cpu:2")
  config, kept = Config(rate=0.1), Kept([1.0])

  def model_fn(features, labels, mode):
    config.calls = config.get("calls", 0) + 1
    loss = tf.reduce_mean((tf.layers.dense(features, 1) - labels) ** 2)
    kept.append(loss)
    kept.calls = getattr(kept, "calls", 0) + 1
    step = tf.train.get_global_step()
    train_op = tf.train.GradientDescentOptimizer(config.rate).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=kept[-1], train_op=train_op)

  estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
  estimator.train(data, steps=1)
  estimator.evaluate(lambda: data(4, False))
  assert config == {"rate": 0.1, "calls": 2}
  assert (len(kept), kept.calls) == (3, 2)
  assert kept[0] == 1.0


def test_an_evaluation_is_traced_once_where_nothing_has_changed(tmp_path):
  model, traced = Model(), []
  original = model.model_fn

  class Counts(Model):
    def model_fn(self, features, labels, mode):
      traced.append(mode)
      return original(features, labels, mode)

  estimator = tf.estimator.Estimator(Counts().model_fn, str(tmp_path))
  estimator.train(data, steps=1)
  for _ in range(3):
    estimator.evaluate(lambda: data(4, False))
  assert traced.count("eval") == 1
