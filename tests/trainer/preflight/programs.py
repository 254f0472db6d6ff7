"""A small image classifier and the ways in which one goes wrong on a TPU."""

import keras
import tensorflow as tf

import trainer
from trainer import run_config
from trainer.preflight import bindings
from trainer.settings import batch_sizes, kinds

SIDE = 16


def input_fn(params):
  examples = tf.data.Dataset.from_tensors(
    ({"image": tf.zeros([SIDE, SIDE, 3])}, tf.constant(0))
  ).repeat()
  return examples.batch(params["batch_size"], drop_remainder=True)


def partial_batches(params):
  return input_fn(params).unbatch().batch(params["batch_size"])


def names(params):
  return (
    tf.data.Dataset.from_tensors(({"name": "octet"}, 0))
    .repeat()
    .batch(params["batch_size"], drop_remainder=True)
  )


def model_fn(features, labels, mode, params, width=32, norm=False):
  x = keras.layers.Conv2D(width, 3, padding="same", activation="relu")(features["image"])
  if norm:
    x = keras.layers.BatchNormalization(synchronized=True)(
      x, training=mode == trainer.ModeKeys.TRAIN
    )
  x = keras.layers.GlobalAveragePooling2D()(x)
  return classifier(keras.layers.Dense(10)(x), labels, mode)


def classifier(logits, labels, mode):
  if mode == trainer.ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions={"logits": logits})
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
  if mode == trainer.ModeKeys.EVAL:
    return trainer.EstimatorSpec(
      mode, loss=loss, eval_metrics=(accuracy, {"labels": labels, "logits": logits})
    )
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=trainer.minimize(keras.optimizers.Adam(), loss)
  )


def accuracy(labels, logits):
  metric = keras.metrics.SparseCategoricalAccuracy()
  metric.update_state(labels, logits)
  return {"accuracy": metric}


def old_optimizer(features, labels, mode, params):
  logits = keras.layers.Dense(10)(keras.layers.Flatten()(features["image"]))
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
  step = tf.compat.v1.train.get_or_create_global_step()
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=tf.compat.v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, step)
  )


def accumulates(features, labels, mode, params):
  logits = keras.layers.Dense(10)(keras.layers.Flatten()(features["image"]))
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
  tf.summary.scalar("loss", loss)
  train_op = trainer.minimize(
    keras.optimizers.SGD(0.1), loss, clip_norm=1.0, accumulate_steps=4, ema_decay=0.9
  )
  return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)


def asks_python(features, labels, mode, params):
  doubled = tf.py_function(lambda image: 2 * image, [features["image"]], tf.float32)  # asks Python
  doubled.set_shape(features["image"].shape)
  return model_fn({"image": doubled}, labels, mode, params)


def shape_of_data(features, labels, mode, params):
  rows = tf.reshape(tf.zeros([64]), [labels[0], -1])  # a shape of data
  return model_fn({"image": features["image"] + tf.reduce_sum(rows)}, labels, mode, params)


def resizes(features, labels, mode, params):
  images = tf.image.resize(features["image"], [8, 8])  # resizes
  return model_fn({"image": images}, labels, mode, params)


def raises(features, labels, mode, params):
  return model_fn({"image": tf.reshape(features["image"], [7, -1])}, labels, mode, params)  # raises


def experiment(model=model_fn, inputs=input_fn, per_core=8, precision="float32"):
  """A bindings.Experiment with the same input_fn for all kinds."""
  return bindings.Experiment(
    model,
    dict.fromkeys(kinds.Kind, inputs),
    {},
    batch_sizes.BatchSizes(train_per_core_batch_size=per_core, eval_per_core_batch_size=per_core),
    run_config.RunConfig(device="tpu", precision=precision),
  )


def line_of(comment):
  """The number of the line in this file that ends in a comment."""
  with open(__file__) as file:
    return next(
      number for number, line in enumerate(file, 1) if line.rstrip().endswith("# " + comment)
    )
