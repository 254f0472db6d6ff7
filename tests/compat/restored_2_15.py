"""A program with Adam, batch norm, a decaying rate and moving averages, for TensorFlow 2.15 and
trainer.compat.v1.

`tf215/bin/python tests/compat/restored_2_15.py` (see record_2_15.py) trains it for four steps by
2.15, keeps that checkpoint, and writes down what 2.15 evaluates after four more.
"""

import numpy as np

STEPS = 4


def program(tf, estimator, folder, **config):
  """(Estimator, input_fn to train on, input_fn to evaluate)."""
  random = np.random.RandomState(0)
  x = random.randn(64, 5).astype("float32")
  y = (x[:, 0] > 0).astype("int32")
  average = tf.train.ExponentialMovingAverage(0.9)

  def model_fn(features, labels, mode):
    hidden = tf.layers.dense(features["x"], 6, activation=tf.nn.relu)
    hidden = tf.layers.batch_normalization(hidden, momentum=0.9, training=mode == "train")
    logits = tf.layers.dense(hidden, 2)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == "eval":
      saver = tf.train.Saver(average.variables_to_restore())
      accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, -1))
      scaffold = tf.train.Scaffold(saver=saver)
      metrics = {"acc": accuracy}
      return estimator.EstimatorSpec(mode, loss=loss, scaffold=scaffold, eval_metric_ops=metrics)
    rate = tf.train.exponential_decay(0.01, tf.train.get_global_step(), 5, 0.7)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
      train_op = tf.train.AdamOptimizer(rate).minimize(loss, tf.train.get_global_step())
    with tf.control_dependencies([train_op]):
      train_op = average.apply(tf.trainable_variables())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  def input_fn(epochs=None):
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat(epochs).batch(64)

  config = estimator.RunConfig(tf_random_seed=3, **config)
  made = estimator.Estimator(model_fn, folder, config)
  return made, input_fn, lambda: input_fn(1)


if __name__ == "__main__":
  import json
  import pathlib
  import shutil
  import tempfile

  import tensorflow.compat.v1 as tf15

  here = pathlib.Path(__file__).parent
  with tempfile.TemporaryDirectory() as folder:
    made, train_fn, eval_fn = program(tf15, tf15.estimator, folder)
    made.train(train_fn, steps=STEPS)
    kept = here / "checkpoint_2_15"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for path in pathlib.Path(folder).glob(f"model.ckpt-{STEPS}.[di]*"):
      shutil.copy(path, kept)
    made.train(train_fn, steps=STEPS)
    result = {key: float(value) for key, value in made.evaluate(eval_fn).items()}
  (kept / "values.json").write_text(json.dumps(result, indent=1) + "\n")
