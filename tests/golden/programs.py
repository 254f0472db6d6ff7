"""The small programs whose checkpoints lie in the folders beside this file.

They use the public contract alone, so that version 0.1.0 and every later one runs them. A program
whose checkpoints are there is never changed: add another one.
"""

import dataclasses
import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

import trainer

v1 = tf.compat.v1
ModeKeys = trainer.ModeKeys

EXAMPLES, CLASSES = 44, 3
BATCH = 8  # no divisor of the examples, so that their place in the data counts


@dataclasses.dataclass(frozen=True)
class Program:
  """A model_fn, how it was trained, and what each checkpoint of it is asked.

  Attributes:
    model_fn: the model_fn.
    device, precision: of the training.
    steps: those of the two checkpoints.
  """

  model_fn: Callable
  device: str = "cpu"
  precision: str = "float32"
  steps: tuple[int, int] = (3, 5)

  def estimator(self, model_dir: str, device: str = "", precision: str = "") -> trainer.Estimator:
    config = trainer.RunConfig(
      device=device or self.device,
      precision=precision or self.precision,
      save_checkpoints_steps=self.steps[0],
      keep_checkpoint_max=len(self.steps),
    )
    return trainer.Estimator(
      self.model_fn, model_dir, config, train_batch_size=BATCH, eval_batch_size=BATCH
    )


def arrays() -> tuple[dict[str, np.ndarray], np.ndarray]:
  """(features, labels), always the same."""
  random = np.random.RandomState(0)
  images = random.randn(EXAMPLES, 6, 6, 2).astype(np.float32)
  labels = (images.mean((1, 2, 3)) > 0).astype(np.int32) + (images[:, 0, 0, 0] > 0)
  return {"image": images}, labels.astype(np.int32)


def train_input_fn(params: dict) -> tf.data.Dataset:
  """In order: which batches come is said by the number of steps alone."""
  dataset = tf.data.Dataset.from_tensor_slices(arrays()).repeat()
  return dataset.batch(params["batch_size"], drop_remainder=True)


def eval_input_fn(params: dict) -> tf.data.Dataset:
  return tf.data.Dataset.from_tensor_slices(arrays()).batch(params["batch_size"])


def _spec(mode, labels, logits, train_op, metric_fn=None):
  predictions = {"class": tf.argmax(logits, -1, tf.int32), "logits": logits}
  if mode == ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=predictions)
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
  if mode == ModeKeys.EVAL:
    metrics = (metric_fn or _keras_metrics, {"labels": labels, "logits": logits})
    return trainer.EstimatorSpec(mode, loss=loss, eval_metrics=metrics)
  return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op(loss))


def _keras_metrics(labels, logits):
  accuracy = keras.metrics.SparseCategoricalAccuracy()
  accuracy.update_state(labels, logits)
  return {"accuracy": accuracy}


def _v1_metrics(labels, logits):
  return {"accuracy": v1.metrics.accuracy(labels, tf.argmax(logits, -1))}


def _dense(image):
  x = keras.layers.Dense(5, "relu")(keras.layers.Flatten()(image))
  return keras.layers.Dense(CLASSES, dtype="float32", name="head")(x)


def layers(features, labels, mode, params):
  """Keras layers, one with a name of its own; Adam."""
  adam = keras.optimizers.Adam(0.01)
  logits = _dense(features["image"])
  return _spec(mode, labels, logits, lambda loss: trainer.minimize(adam, loss))


def averages(features, labels, mode, params):
  """Averages of the weights, gradients of two steps, one of which waits at an odd step."""
  settings = dict(accumulate_steps=2, ema_decay=0.5, clip_norm=1.0)
  optimizer = keras.optimizers.AdamW(0.01)
  logits = _dense(features["image"])
  return _spec(mode, labels, logits, lambda loss: trainer.minimize(optimizer, loss, **settings))


def norm(features, labels, mode, params):
  """Batch norm, whose averages each core has of its own; momentum; a schedule of Keras."""
  training = mode == ModeKeys.TRAIN
  x = keras.layers.Conv2D(4, 3)(features["image"])
  x = keras.layers.BatchNormalization(momentum=0.9)(x, training=training)
  logits = keras.layers.Dense(CLASSES)(keras.layers.GlobalAveragePooling2D()(tf.nn.relu(x)))
  rate = keras.optimizers.schedules.CosineDecay(0.1, 20)
  momentum = keras.optimizers.SGD(rate, momentum=0.9)
  return _spec(mode, labels, logits, lambda loss: trainer.minimize(momentum, loss))


def get_variable(features, labels, mode, params):
  """Variables by get_variable, an optimizer and metrics of tf.compat.v1."""
  x = tf.reshape(features["image"], [-1, 72])
  with v1.variable_scope("hidden"):
    w = v1.get_variable("w", [72, 5])
    b = v1.get_variable("b", [5], initializer=v1.zeros_initializer())
  with v1.variable_scope("output"):
    logits = tf.nn.relu(x @ w + b) @ v1.get_variable("w", [5, CLASSES])

  def train_op(loss):
    optimizer = v1.train.AdamOptimizer(0.01)
    return optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())

  return _spec(mode, labels, logits, train_op, _v1_metrics)


class _Linear(tf.Module):
  def __init__(self, inputs, outputs, name=None):
    super().__init__(name)
    with self.name_scope:
      self.w = tf.Variable(tf.random.normal([inputs, outputs], stddev=0.1), name="w")
      self.b = tf.Variable(tf.zeros([outputs]), name="b")

  def __call__(self, x):
    return x @ self.w + self.b


def modules(features, labels, mode, params):
  """Variables of tf.Modules, and one of none; an optimizer with a variable that is no slot."""
  x = tf.nn.relu(_Linear(72, 5)(tf.reshape(features["image"], [-1, 72])))
  logits = _Linear(5, CLASSES, name="second")(x) * tf.Variable(1.0, name="scale")
  optimizer = keras.optimizers.Nadam(0.01)
  return _spec(mode, labels, logits, lambda loss: trainer.minimize(optimizer, loss))


def _keras_model():
  dense = [keras.layers.Dense(5, "relu"), keras.layers.Dense(CLASSES)]
  return keras.Sequential([keras.layers.Input((6, 6, 2)), keras.layers.Flatten(), *dense])


keras_model = trainer.model_fn_from_keras(
  _keras_model,
  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  functools.partial(keras.optimizers.RMSprop, 0.01, momentum=0.5),
  ["sparse_categorical_accuracy"],
)

PROGRAMS = {
  "layers": Program(layers),
  "averages_bfloat16": Program(averages, precision="bfloat16"),
  "norm_eight_cores": Program(norm, device="cpu:8"),
  "get_variable": Program(get_variable),
  "modules": Program(modules),
  "keras_model": Program(keras_model),
}
