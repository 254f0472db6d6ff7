"""Small programs, in each of the ways that people write a model_fn.

Each test file here holds one property, and tests it on all of them.

To have a model tested for every property, add a line to CASES.
"""

import dataclasses
import functools
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import trainer
from tests.conformance import optimizers
from tests.trainer import programs
from trainer.optimization import schedules

v1 = tf.compat.v1
ModeKeys = trainer.ModeKeys

EXAMPLES = 43  # of which no batch size here is a divisor


@dataclasses.dataclass(frozen=True)
class Case:
  """A model_fn and the shapes of its data.

  Attributes:
    image: shape of the feature of one example; its values are normal.
    deterministic: whether training draws no random numbers that differ between one replica and
      eight, nor looks at other examples.
  """

  name: str
  model_fn: Callable
  image: tuple = (4, 4, 2)
  classes: int = 5
  feature: str = "image"
  params: Any = None
  deterministic: bool = True
  global_batch: int = 16

  def arrays(self):
    """(features dict, labels) as numpy arrays, always the same."""
    random = np.random.RandomState(0)
    images = random.randn(EXAMPLES, *self.image).astype(np.float32)
    return {self.feature: images}, random.randint(0, self.classes, EXAMPLES).astype(np.int32)

  def train_input_fn(self, params):
    dataset = tf.data.Dataset.from_tensor_slices(self.arrays())
    return dataset.shuffle(EXAMPLES).repeat().batch(params["batch_size"], drop_remainder=True)

  def eval_input_fn(self, params):
    return tf.data.Dataset.from_tensor_slices(self.arrays()).batch(params["batch_size"])

  def estimator(self, model_dir, device="cpu", model_fn=None, **config):
    """An Estimator of this case."""
    return trainer.Estimator(
      model_fn or self.model_fn,
      str(model_dir),
      trainer.RunConfig(device=device, **config),
      params=self.params,
      train_batch_size=self.global_batch,
      eval_batch_size=self.global_batch,
    )


def spec(mode, labels, logits, train_op, metric_fn=None):
  """The EstimatorSpec of a classifier; train_op is a function of the loss."""
  predictions = {"class": tf.argmax(logits, -1, tf.int32), "logits": logits}
  if mode == ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=predictions)
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
  if mode == ModeKeys.EVAL:
    return trainer.EstimatorSpec(
      mode,
      loss=loss,
      eval_metrics=(metric_fn or keras_metric_fn, {"labels": labels, "logits": logits}),
    )
  return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op(loss))


def keras_metric_fn(labels, logits):
  accuracy = keras.metrics.SparseCategoricalAccuracy()
  accuracy.update_state(labels, logits)
  return {"accuracy": accuracy}


def v1_metric_fn(labels, logits):
  return {"accuracy": v1.metrics.accuracy(labels, tf.argmax(logits, -1))}


def minimized(optimizer, **kwargs):
  return lambda loss: trainer.minimize(optimizer(), loss, **kwargs)


ADAM = minimized(keras.optimizers.Adam)


def keras_layers(features, labels, mode, params, train_op=ADAM, norm=False, dropout=0.0):
  x = keras.layers.Conv2D(4, 3, padding="same")(features["image"])
  if norm:
    x = keras.layers.BatchNormalization()(x, training=mode == ModeKeys.TRAIN)
  x = keras.layers.Flatten()(tf.nn.relu(x))
  if dropout:
    x = keras.layers.Dropout(dropout)(x, training=mode == ModeKeys.TRAIN)
  return spec(mode, labels, keras.layers.Dense(5)(x), train_op)


def keras_model(features, labels, mode, params):
  model = keras.Sequential(
    [keras.layers.Flatten(), keras.layers.Dense(8, "relu"), keras.layers.Dense(5)]
  )
  return spec(
    mode,
    labels,
    model(features["image"], training=mode == ModeKeys.TRAIN),
    minimized(keras.optimizers.SGD),
  )


class Linear(tf.Module):
  """As Sonnet users write it."""

  def __init__(self, inputs, outputs, name=None):
    super().__init__(name)
    with self.name_scope:
      self.w = tf.Variable(tf.random.normal([inputs, outputs], stddev=0.05), name="w")
      self.b = tf.Variable(tf.zeros([outputs]), name="b")

  def __call__(self, x):
    return x @ self.w + self.b


def modules(features, labels, mode, params):
  x = tf.reshape(features["image"], [-1, 32])
  x = tf.nn.relu(Linear(32, 8)(x))
  x = tf.nn.relu(Linear(8, 8, name="second")(x))
  scale = tf.Variable(1.0, name="scale")
  return spec(mode, labels, Linear(8, 5)(x) * scale, minimized(keras.optimizers.Adam))


def v1_variables(features, labels, mode, params):
  x = tf.reshape(features["image"], [-1, 32])
  with v1.variable_scope("hidden"):
    w = v1.get_variable("w", [32, 32])
    b = v1.get_variable("b", [32], initializer=v1.zeros_initializer())
  x = tf.nn.relu(x @ w + b)
  with v1.variable_scope("hidden", reuse=True):
    x = tf.nn.relu(x @ v1.get_variable("w", [32, 32]))
  with v1.variable_scope("output"):
    logits = x @ v1.get_variable("w", [32, 5])
  return spec(
    mode,
    labels,
    logits,
    lambda loss: v1.train.AdamOptimizer().minimize(loss, v1.train.get_or_create_global_step()),
    v1_metric_fn,
  )


def cross_shard(features, labels, mode, params):
  logits = keras.layers.Dense(5)(tf.reshape(features["image"], [-1, 32]))

  def train_op(loss):
    optimizer = trainer.CrossShardOptimizer(v1.train.MomentumOptimizer(0.1, 0.9))
    return optimizer.minimize(loss, global_step=v1.train.get_global_step())

  return spec(mode, labels, logits, train_op)


def own_gradients(features, labels, mode, params):
  dense = keras.layers.Dense(5)
  with tf.GradientTape() as tape:
    logits = dense(tf.reshape(features["image"], [-1, 32]))
    loss = (
      None
      if labels is None
      else tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    )

  def train_op(_):
    optimizer = keras.optimizers.SGD(0.1, global_clipnorm=0.5)
    return optimizer.apply_gradients(
      zip(tape.gradient(loss, dense.trainable_variables), dense.trainable_variables, strict=True)
    )

  return spec(mode, labels, logits, train_op)


@functools.cache
def _pretrained():
  """The path of a checkpoint with the first layer of `fine_tuned`."""
  values = np.random.RandomState(3).randn(32, 32) / 8
  return programs.v1_checkpoint(tempfile.mkdtemp(), {"pretrained/hidden/w": values})


def fine_tuned(features, labels, mode, params):
  """From pretrained weights, and evaluated with moving averages; a scaffold_fn asks for both."""
  with v1.variable_scope("hidden"):
    w = v1.get_variable("w", [32, 32])
  with v1.variable_scope("output"):
    logits = tf.nn.relu(tf.reshape(features["image"], [-1, 32]) @ w) @ v1.get_variable("w", [32, 5])
  average = v1.train.ExponentialMovingAverage(0.5)

  def scaffold_fn():
    if mode != ModeKeys.TRAIN:
      return v1.train.Scaffold(saver=v1.train.Saver(average.variables_to_restore()))
    v1.train.init_from_checkpoint(_pretrained(), {"pretrained/hidden/": "hidden/"})
    return v1.train.Scaffold()

  def train_op(loss):
    step = v1.train.AdamOptimizer().minimize(loss, v1.train.get_global_step())
    with tf.control_dependencies([step]):
      return average.apply(v1.trainable_variables())

  made = spec(mode, labels, logits, train_op)
  made.scaffold_fn = scaffold_fn
  return made


def layer(x, size, name):
  """A layer of get_variable, with a bias that is not zero, for the sake of Lars."""
  with v1.variable_scope(name):
    w = v1.get_variable("w", [x.shape[-1], size])
    b = v1.get_variable("b", [size], initializer=v1.constant_initializer(0.1))
    return x @ w + b


def as_bert_trains(loss):
  trained = v1.trainable_variables()
  optimizer = trainer.CrossShardOptimizer(optimizers.AdamWeightDecay(0.01))
  global_step = v1.train.get_or_create_global_step()
  train_op = optimizer.apply_gradients(
    zip(tf.gradients(loss, trained), trained, strict=True), global_step=global_step
  )
  return tf.group(train_op, [global_step.assign(global_step + 1)])


def as_simclr_trains(loss):
  return optimizers.Lars(0.1).minimize(loss, v1.train.get_or_create_global_step())


def v1_layers(features, labels, mode, params, train_op):
  x = tf.reshape(features["image"], [-1, 32])
  return spec(mode, labels, layer(tf.nn.relu(layer(x, 8, "hidden")), 5, "output"), train_op)


def two_optimizers(features, labels, mode, params):
  """A network and one that learns to tell its outputs from random numbers, as in GANs."""
  logits = layer(tf.reshape(features["image"], [-1, 32]), 5, "network")
  judged = layer(tf.tanh(layer(logits, 4, "judge")), 1, "judgement")

  def train_op(loss):
    global_step = v1.train.get_global_step()
    of_judge = tf.reduce_mean(tf.square(judged - tf.reduce_max(logits, -1, keepdims=True)))
    ops = []
    for optimized, scope in (
      (loss + 0.01 * tf.reduce_mean(judged), "network"),
      (of_judge, "judge"),
    ):
      optimizer = v1.train.AdamOptimizer(0.01)
      ops.append(optimizer.minimize(optimized, global_step, v1.trainable_variables(scope)))
    return tf.group(*ops)

  return spec(mode, labels, logits, train_op)


def losses_collections(features, labels, mode, params):
  """The loss is what tf.compat.v1.losses and regularizers have put into collections."""
  with v1.variable_scope("network", regularizer=lambda w: 0.001 * tf.nn.l2_loss(w)):
    logits = layer(tf.reshape(features["image"], [-1, 32]), 5, "layer")
  v1.add_to_collection("magnitudes", 0.001 * tf.reduce_mean(tf.square(logits)))

  def train_op(_):
    v1.losses.sparse_softmax_cross_entropy(labels, logits)
    v1.losses.add_loss(tf.add_n(v1.get_collection("magnitudes")))
    total = v1.losses.get_total_loss()
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
      return v1.train.MomentumOptimizer(0.1, 0.9).minimize(total)

  return spec(mode, labels, logits, train_op)


CASES = [
  Case("keras_layers", keras_layers),
  Case(
    "batch_norm_and_dropout",
    functools.partial(keras_layers, norm=True, dropout=0.3),
    deterministic=False,
  ),
  Case(
    "clipped",
    functools.partial(keras_layers, train_op=minimized(keras.optimizers.Adam, clip_norm=0.1)),
  ),
  Case("keras_model", keras_model),
  Case("modules", modules),
  Case("v1_variables", v1_variables),
  Case("cross_shard", cross_shard),
  Case("own_gradients", own_gradients),
  Case("scaffold_fn", fine_tuned),
  Case(
    "scheduled",
    functools.partial(
      keras_layers,
      train_op=minimized(
        lambda: v1.train.AdamOptimizer(schedules.cosine(0.01, warmup=2, duration=80))
      ),
    ),
  ),
  Case("as_bert_trains", functools.partial(v1_layers, train_op=as_bert_trains)),
  Case("as_simclr_trains", functools.partial(v1_layers, train_op=as_simclr_trains)),
  Case("two_optimizers", two_optimizers),
  Case("losses_collections", losses_collections),
]
# Those that differ most: the gate's. The others are long tests.
QUICK = [case for case in CASES if case.name in ("keras_layers", "v1_variables", "as_bert_trains")]
# The gate trains these on one core and on eight. On two cores it trains keras_layers, in
# tests/trainer/tracing/test_replicas.py, and a program's optimizer, in
# tests/trainer/optimization/test_combined_gradients.py.
ON_EIGHT = [case for case in CASES if case.name in ("keras_model", "v1_variables")]
