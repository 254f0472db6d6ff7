"""Heads in a program's model_fn, for TensorFlow 2.15 and trainer.compat.v1.

`tf215/bin/python tests/compat/heads_2_15.py` (see record_2_15.py) writes down in heads_2_15.json
what 2.15 evaluates and predicts after a few steps.
"""

import numpy as np

EXAMPLES = 32
STEPS = 5
REGULARIZED = ("binary", "several heads")


def heads(tf, estimator):
  """By name, (head, its labels)."""
  random = np.random.RandomState(0)
  x = random.randn(EXAMPLES, 3).astype(np.float32)
  binary = (x[:, 0] + 0.5 * random.randn(EXAMPLES) > 0).astype(np.int64)
  classes = np.digitize(x[:, 1], [-0.5, 0.5])
  several = np.stack([binary, (x[:, 1] > 0.3).astype(np.int64), (x[:, 2] < 0).astype(np.int64)], 1)
  made = {
    "binary": (
      estimator.BinaryClassHead(weight_column="weight", thresholds=[0.4], name="head"),
      binary,
    ),
    "classes": (estimator.MultiClassHead(3), classes),
    "labels": (
      estimator.MultiLabelHead(
        3, weight_column="weight", thresholds=[0.4], classes_for_class_based_metrics=[0, 2]
      ),
      several,
    ),
    "named labels": (
      estimator.MultiLabelHead(
        3, label_vocabulary=["a", "b", "c"], classes_for_class_based_metrics=["b"], name="head"
      ),
      several,
    ),
    "numbers": (estimator.RegressionHead(2, weight_column="weight"), x[:, :2] * 2),
  }
  first = estimator.MultiClassHead(3, name="first")
  second = estimator.RegressionHead(1, name="second")
  made["several heads"] = (
    estimator.MultiHead([first, second], [1.0, 0.5]),
    {"first": classes, "second": x[:, 0]},
  )
  return x, made


def run(tf, estimator, name, folder, **config):
  """(what is evaluated, what is predicted for the first example) after some steps."""
  x, made = heads(tf, estimator)
  head, labels = made[name]

  def model_fn(features, labels, mode):
    weights = tf.get_variable(
      "weights",
      [3, head.logits_dimension],
      initializer=tf.zeros_initializer(),
      regularizer=lambda weights: 0.1 * tf.reduce_sum(weights * weights),
    )
    # They are part of the loss only where the program hands them over.
    added = tf.losses.get_regularization_losses() if name in REGULARIZED else None

    def train_op_fn(loss):
      optimizer = tf.train.GradientDescentOptimizer(0.3)
      return optimizer.minimize(loss, tf.train.get_global_step())

    return head.create_estimator_spec(
      features,
      mode,
      tf.matmul(features["x"], weights),
      labels,
      train_op_fn=train_op_fn,
      regularization_losses=added,
    )

  def input_fn(epochs):
    features = {"x": x, "weight": np.linspace(0.5, 2.0, EXAMPLES, dtype=np.float32)}
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(epochs).batch(16)

  made = estimator.Estimator(model_fn, f"{folder}/{name}", estimator.RunConfig(**config))
  made.train(lambda: input_fn(None), steps=STEPS)
  result = made.evaluate(lambda: input_fn(1))
  predicted = next(iter(made.predict(lambda: input_fn(1).map(lambda features, labels: features))))
  return (
    {key: float(value) for key, value in result.items()},
    {"/".join(key) if isinstance(key, tuple) else key: plain(predicted[key]) for key in predicted},
  )


def plain(value):
  """A value as JSON has it."""
  found = np.asarray(value).tolist()
  return [each.decode() if isinstance(each, bytes) else each for each in np.ravel(found).tolist()]


def main():
  import json
  import pathlib
  import tempfile

  import tensorflow.compat.v1 as tf15

  _, made = heads(tf15, tf15.estimator)
  with tempfile.TemporaryDirectory() as folder:
    found = {name: run(tf15, tf15.estimator, name, folder) for name in made}
  here = pathlib.Path(__file__).parent
  (here / "heads_2_15.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
  main()
