"""A program for TensorFlow 1's Estimators, compared with Octet's own API and with TensorFlow 2.15.

    python -m benchmarks.run legacy
    python -m benchmarks.run legacy --tf215=tf215/bin/python

The program trains on trainer.compat.v1 with only its imports changed, see `legacy_program`. The
other sides are the same network of Keras layers and a Keras optimizer on trainer.Estimator, and the
unchanged program in another interpreter with tensorflow-cpu==2.15.*. All three read the same
batches, and write logs and summaries at their default intervals.
"""

import os
import pathlib
import statistics
import subprocess
import tempfile

from benchmarks import legacy_program, results, sides

ROOT = pathlib.Path(__file__).resolve().parents[1]


def measure(rounds=10, tf215="", names=tuple(legacy_program.CASES)):
  """Returns rows for the named cases; with 2.15 if its interpreter is given."""
  rows = []
  for name in names:
    case = legacy_program.CASES[name]
    found = {
      "octet": sides.Side(legacy, {"case": case}),
      "native": sides.Side(native, {"case": case}),
    }
    if tf215:
      python = str(pathlib.Path(tf215).absolute())
      found["2.15"] = sides.Side(other, {"name": name, "python": python})
    slices = sides.alternate(found, rounds)
    rows.append(_row(case, slices, "native", "the same for Octet", 0.95))
    if tf215:
      rows.append(_row(case, slices, "2.15", "TensorFlow 2.15", 1.0))
  return rows


def _row(case, slices, side, against, at_least):
  failed = sides.failure(slices, "octet", side)
  speeds = [
    case.steps / statistics.median(slices[name].seconds) for name in ("octet", side) if not failed
  ]
  return results.Row(
    "legacy",
    case.title,
    against,
    sides.ratios(slices, side),
    at_least=at_least,
    note=failed or "{:,.0f} and {:,.0f} steps/s".format(*speeds),
  )


# ---------------------------------------------------------------------- the sides, one process each


class _Turn:
  """A hook that takes a turn every `steps` steps."""

  def __init__(self, turns, steps):
    self._turns = turns
    self._steps = steps

  def next_step(self, step):
    return step - step % self._steps + self._steps

  def begin(self, estimator):
    return not self._turns.take()

  def __call__(self, step, metrics, estimator):
    return step % self._steps == 0 and not self._turns.take()


class _Log:
  """A hook that prints the loss at the first step and at an interval, as a LoggingTensorHook does.

  So both sides stop at the same steps. Octet also writes its own report at multiples of 100.
  """

  def __init__(self, every):
    self._every = every
    self._due = 1

  def next_step(self, step):
    return self._due

  def __call__(self, step, metrics, estimator):
    if step >= self._due:
      print(f"loss = {metrics['loss']}, step = {step}")
      self._due = step + self._every
    return False


def legacy(turns, case):
  """The program on trainer.compat.v1."""
  import trainer.compat.v1 as tf

  with tempfile.TemporaryDirectory() as folder:
    made = legacy_program.estimator(tf, case, folder, device="cpu")
    made.train(lambda params: legacy_program.dataset(tf, case), hooks=[_Turn(turns, case.steps)])


def native(turns, case):
  """The same network on trainer.Estimator."""
  import tensorflow as tf

  import trainer

  hooks = [_Turn(turns, case.steps)]
  if case.logged_every:
    hooks.append(_Log(case.logged_every))
  with tempfile.TemporaryDirectory() as folder:
    made = trainer.Estimator(
      native_model_fn(case),
      folder,
      trainer.RunConfig(device="cpu", save_checkpoints_secs=10**6),
      train_batch_size=case.batch_size,
    )
    made.train(lambda params: legacy_program.dataset(tf, case), hooks=hooks)


def native_model_fn(case):
  """Returns the network, of Keras layers."""
  import keras
  import tensorflow as tf

  import trainer

  def model_fn(features, labels, mode, params):
    x = features["x"]
    if len(case.shape) == 3:
      for filters in (32, 64):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = keras.layers.MaxPooling2D(2)(x)
      x = keras.layers.Flatten()(x)
    for units in (128, 64):
      x = keras.layers.Dense(units, activation="relu")(x)
    logits = keras.layers.Dense(10)(x)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    train_op = trainer.minimize(keras.optimizers.Adam(0.001), loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def other(turns, name, python):
  """The program in another interpreter, whose process obeys this one."""
  environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", PYTHONPATH=str(ROOT))
  with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "w+") as log:
    command = [python, "-m", "benchmarks.legacy_program", name, f"{folder}/model"]
    process = subprocess.Popen(
      command,
      cwd=ROOT,
      env=environment,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=log,
      text=True,
    )

    def wait_for(word):
      line = ""
      while line.strip() != word:
        line = process.stdout.readline()
        if not line:
          log.seek(0)
          raise RuntimeError(f"{python} ended: {log.read().strip()[-2000:]}")

    try:
      while turns.take(rest=lambda: wait_for("idle")):
        print("go", file=process.stdin, flush=True)
        wait_for("done")
    finally:
      process.kill()
      process.wait()
