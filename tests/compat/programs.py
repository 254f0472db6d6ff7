"""Small programs as they were written for TensorFlow 1, on toy data."""

import numpy as np

import trainer.compat.v1 as tf
from trainer.compat.v1 import estimator as tf_estimator
from trainer.compat.v1.contrib import tpu as contrib_tpu

ModeKeys = tf_estimator.ModeKeys

EXAMPLES = 48


def arrays():
  """(images, labels) as numpy arrays, always the same."""
  random = np.random.RandomState(0)
  x = random.randn(EXAMPLES, 6).astype(np.float32)
  return x, (x[:, 0] + x[:, 1] > 0).astype(np.int32)


def train_input_fn(params):
  """The tensors of a one-shot iterator."""
  dataset = tf.data.Dataset.from_tensor_slices(arrays()).repeat()
  dataset = dataset.batch(params["batch_size"], drop_remainder=True)
  x, y = dataset.make_one_shot_iterator().get_next()
  return {"x": x}, y


def eval_input_fn(params):
  x, y = arrays()
  return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(params["batch_size"])


def logits_of(features):
  with tf.variable_scope("net"):
    return tf.layers.dense(features["x"], 2)


def tpu_model_fn(features, labels, mode, params):
  """As a TPUEstimator has it."""
  return tpu_spec(mode, labels, logits_of(features), tf.train.GradientDescentOptimizer(0.1))


def deep_tpu_model_fn(features, labels, mode, params):
  """As a TPUEstimator has it, with two layers and an optimizer with slots."""
  with tf.variable_scope("net"):
    x = tf.layers.dense(features["x"], 8, activation=tf.nn.relu)
  logits = tf.layers.dense(x, 2, name="output")
  return tpu_spec(mode, labels, logits, tf.train.AdamOptimizer(0.01))


def tpu_spec(mode, labels, logits, optimizer):
  """The TPUEstimatorSpec of a classifier."""
  if mode == ModeKeys.PREDICT:
    return contrib_tpu.TPUEstimatorSpec(mode, predictions={"probabilities": tf.nn.softmax(logits)})
  loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
  train_op = None
  if mode == ModeKeys.TRAIN:
    optimizer = contrib_tpu.CrossShardOptimizer(optimizer)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())

  def metric_fn(labels, logits):
    return {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, -1))}

  return contrib_tpu.TPUEstimatorSpec(
    mode, loss=loss, train_op=train_op, eval_metrics=(metric_fn, [labels, logits])
  )


def model_fn(features, labels, mode):
  """As an Estimator has it."""
  logits = logits_of(features)
  classes = tf.argmax(logits, -1)
  if mode == ModeKeys.PREDICT:
    return tf_estimator.EstimatorSpec(mode, predictions={"class": classes})
  loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
  optimizer = tf.train.GradientDescentOptimizer(0.1)
  return tf_estimator.EstimatorSpec(
    mode,
    loss=loss,
    train_op=optimizer.minimize(loss, tf.train.get_global_step()),
    eval_metric_ops={
      "accuracy": tf.metrics.accuracy(labels, classes),
      "mean_loss": tf.metrics.mean(loss),
    },
  )


def tpu_estimator(
  model_dir, device="cpu", fn=tpu_model_fn, params=None, use_tpu=False, **tpu_config
):
  """A TPUEstimator for this device."""
  config = contrib_tpu.RunConfig(
    model_dir=str(model_dir),
    device=device,
    save_checkpoints_secs=3600,
    tpu_config=contrib_tpu.TPUConfig(**tpu_config),
  )
  return contrib_tpu.TPUEstimator(
    fn,
    config=config,
    params=params,
    use_tpu=use_tpu,
    train_batch_size=16,
    eval_batch_size=16,
    predict_batch_size=16,
  )


def estimator(model_dir, device="cpu", fn=model_fn, params=None, **config):
  """An Estimator for this device."""
  config = tf_estimator.RunConfig(device=device, save_checkpoints_secs=3600, **config)
  return tf_estimator.Estimator(fn, str(model_dir), config, params)


def scalars(folder):
  """By tag, the last value in the summaries of a folder."""
  found = {}
  for path in folder.glob("events*"):
    for event in tf.train.summary_iterator(str(path)):
      for value in event.summary.value:
        if value.HasField("tensor") and not value.tensor.tensor_shape.dim:
          found[value.tag] = float(tf.make_ndarray(value.tensor))
  return found
