"""Programs for TensorFlow 1's Estimators, for trainer.compat.v1 and for TensorFlow 2.15.

    tf215/bin/python -m benchmarks.legacy_program CASE FOLDER

trains one with that interpreter's TensorFlow, for `benchmarks.legacy`: it writes "idle" on standard
output when it rests, waits for a line on standard input, trains a slice and writes "done".
"""

import dataclasses
import sys

import numpy as np


@dataclasses.dataclass(frozen=True)
class Case:
  """A network and its input.

  Attributes:
    name: the name for people.
    shape: an example's shape.
    batch_size: the batch size.
    steps: the steps in a slice.
    logged_every: the interval in steps of a LoggingTensorHook; 0: no hook.
    is_tpu_estimator: whether the program has a TPUEstimator instead of an Estimator.
  """

  name: str
  shape: tuple[int, ...]
  batch_size: int
  steps: int
  logged_every: int = 0
  is_tpu_estimator: bool = False

  @property
  def title(self):
    return f"{self.name}, batch {self.batch_size}"


CASES = {
  "mlp": Case("MLP, Estimator", (64,), 32, 2000),
  "mlp_hooks": Case("MLP, TPUEstimator, loss logged", (64,), 32, 2000, 100, is_tpu_estimator=True),
  "cnn": Case("CNN, TPUEstimator", (28, 28, 1), 128, 20, is_tpu_estimator=True),
}

_BATCHES = 64  # in the data set


def dataset(tf, case):
  """Returns endless batches: the benchmark measures the step, not the input pipeline."""
  random = np.random.RandomState(0)
  x = random.rand(_BATCHES, case.batch_size, *case.shape).astype(np.float32)
  y = random.randint(0, 10, [_BATCHES, case.batch_size]).astype(np.int32)
  data = tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat()
  return data.prefetch(tf.data.experimental.AUTOTUNE)


def logits_of(tf, case, features):
  """Returns the logits of the network, of tf.layers."""
  x = features["x"]
  if len(case.shape) == 3:
    for filters in (32, 64):
      x = tf.layers.conv2d(x, filters, 3, padding="same", activation=tf.nn.relu)
      x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.flatten(x)
  for units in (128, 64):
    x = tf.layers.dense(x, units, activation=tf.nn.relu)
  return tf.layers.dense(x, 10)


def estimator(tf, case, folder, **others):
  """Returns the program's Estimator.

  Args:
    tf: tf.compat.v1, or trainer.compat.v1.
    folder: the model_dir.
    others: the RunConfig's other arguments.
  """

  def model_fn(features, labels, mode, params):
    del params
    logits = logits_of(tf, case, features)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf.train.AdamOptimizer(0.001).minimize(loss, tf.train.get_global_step())
    hooks = []
    if case.logged_every:
      hooks.append(tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=case.logged_every))
    made = (
      tf.estimator.tpu.TPUEstimatorSpec if case.is_tpu_estimator else tf.estimator.EstimatorSpec
    )
    return made(mode, loss=loss, train_op=train_op, training_hooks=hooks)

  rare = dict(model_dir=folder, save_checkpoints_secs=10**6, **others)
  if not case.is_tpu_estimator:
    return tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(**rare), params={"a": 1})
  config = tf.estimator.tpu.RunConfig(tpu_config=tf.estimator.tpu.TPUConfig(), **rare)
  return tf.estimator.tpu.TPUEstimator(
    model_fn, config=config, use_tpu=False, train_batch_size=case.batch_size
  )


def _input_fn(tf, case):
  return lambda params: dataset(tf, case)


def main(name, folder):
  import tensorflow.compat.v1 as tf

  from benchmarks import sides

  class Turn(tf.train.SessionRunHook):
    """Trains a slice for each line of standard input."""

    def __init__(self):
      self._left = 0

    def before_run(self, run_context):
      if not self._left:
        sides.until_idle()
        print("idle", flush=True)
        sys.stdin.readline()
        self._left = CASES[name].steps

    def after_run(self, run_context, run_values):
      self._left -= 1
      if not self._left:
        print("done", flush=True)

  made = estimator(tf, CASES[name], folder)
  made.train(_input_fn(tf, CASES[name]), hooks=[Turn()])


if __name__ == "__main__":
  main(*sys.argv[1:])
