"""Measures what checkpoints cost a training.

It compares the throughput with one every 20 steps and with none, for a model of 100 MB.

    python -m benchmarks.run checkpoint

One training alternates blocks of steps with and without checkpoints. A block with checkpoints has
one in the middle of each EVERY steps, and ends after the last one's write, so it pays for all of
them.
"""

import statistics
import tempfile
import time

import keras
import tensorflow as tf

import trainer
from benchmarks import results

EVERY = 20


def model_fn(features, labels, mode, params, width):
  """Two square layers: 2 × width² float32 weights, 100 MB for 3,536."""
  del params
  x = features
  for _ in range(2):
    x = keras.layers.Dense(width, activation="relu")(x)
  loss = tf.reduce_mean(tf.square(tf.reduce_mean(x, -1) - labels))
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(1e-3), loss)
  )


class Blocks:
  """A hook that saves every EVERY steps in each second block, and times the blocks."""

  def __init__(self, steps):
    self._steps = steps
    self.seconds = []  # of the blocks, alternately without and with checkpoints
    self._start = None

  def next_step(self, step):
    return (step // (EVERY // 2) + 1) * (EVERY // 2)

  def begin(self, estimator):
    estimator.wait_for_checkpoint()

  def __call__(self, step, metrics, estimator):
    if self._start is None:  # the first loops compile
      if step >= self._steps:
        self._start = time.monotonic()
      return
    saves = len(self.seconds) % 2
    if saves and step % EVERY:
      estimator.save_checkpoint()
    if step % self._steps == 0:
      if saves:
        estimator.wait_for_checkpoint()
      now = time.monotonic()
      self.seconds.append(now - self._start)
      self._start = time.monotonic()


def run(pairs, width, batch_size, block):
  """Returns the ratio of throughputs for each pair of blocks, and the seconds of a step.

  The ratio is with checkpoints ÷ without; the seconds are without.
  """

  def input_fn(params):
    x = tf.random.stateless_normal([params["batch_size"], width], (1, 2))
    return tf.data.Dataset.from_tensors((x, x[:, 0])).repeat()

  blocks = Blocks(block)
  with tempfile.TemporaryDirectory() as folder:
    estimator = trainer.Estimator(
      lambda features, labels, mode, params: model_fn(features, labels, mode, params, width),
      folder,
      trainer.RunConfig(
        save_checkpoints_steps=0,
        keep_checkpoint_max=2,
        log_step_count_steps=10**6,
        save_summary_steps=10**6,
      ),
      train_batch_size=batch_size,
    )
    estimator.train(input_fn, hooks=[blocks], max_steps=block * (2 * pairs + 1))
  plain, saving = blocks.seconds[::2], blocks.seconds[1::2]
  return tuple(one / other for one, other in zip(plain, saving, strict=True)), statistics.median(
    plain
  ) / block


def measure(rounds=7, width=3536, batch_size=128, block=60):
  """Returns one row: throughput with checkpoints against throughput without."""
  ratios, seconds = run(rounds, width, batch_size, block)
  size = 2 * width**2 * 4 / 1e6
  return [
    results.Row(
      "checkpoint",
      f"{size:.0f} MB every {EVERY} steps of {1000 * seconds:.0f} ms",
      "the same without checkpoints",
      ratios,
    )
  ]
