"""Reads a model_dir in every way while a training saves there often and keeps one checkpoint.

    python -m tests.slow.readers_beside_training --reads=100

The training is another process. It saves every 5 steps and takes a few milliseconds for them, so a
checkpoint soon disappears. Each read must come from one checkpoint: its weights and its step belong
together. With --read_only the readers cannot write leases, as in the folder of somebody else. No
lease may be left at the end.
"""

import argparse
import collections
import contextlib
import os
import subprocess
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import directory, main, warm_start
from trainer.io import storage
from trainer.outputs import options

_PAUSE = 0.2  # seconds between two looks at the training's files


def model_fn(features, labels, mode, params):
  """The line, with one more variable for the step: a training step adds 1."""
  spec = programs.line(features, labels, mode, params)
  steps = tf.Variable(0.0, name="steps", trainable=False)
  if mode == trainer.ModeKeys.TRAIN:
    steps.assign_add(1.0)
    return spec
  if mode == trainer.ModeKeys.PREDICT:
    # Add the step to the prediction, instead of replacing it: each prediction then identifies its
    # checkpoint.
    y = spec.predictions["y"]
    return trainer.EstimatorSpec(mode, predictions={"y": y, "steps": 0.0 * y + steps})
  return trainer.EstimatorSpec(
    mode, loss=spec.loss, eval_metrics=(_mean, [labels + steps - labels])
  )


def _mean(steps):
  metric = keras.metrics.Mean()
  metric.update_state(steps)
  return {"steps": metric}


def make(folder, **settings):
  return trainer.Estimator(
    model_fn,
    folder,
    trainer.RunConfig(device="cpu", save_checkpoints_steps=5, keep_checkpoint_max=1),
    train_batch_size=8,
    eval_batch_size=8,
    predict_batch_size=8,
    export_options=options.ExportOptions(verify=False),
    **settings,
  )


class Readers:
  """The ways to read; each returns (the expected step, the actual step)."""

  def __init__(self, folder, elsewhere):
    self._folder, self._elsewhere = folder, elsewhere
    self._estimator = make(folder)
    self.kinds = {
      "evaluate": self.evaluate,
      "predict": self.predict,
      "predict, an evaluation between": self.predict_with_an_evaluation_between,
      "export": self.export,
      "get_variable_value": self.get_variable_value,
      "warm start": self.warm_start,
      "trainer.checkpoints": self.commands,
    }

  def evaluate(self):
    result = self._estimator.evaluate(programs.examples(16))
    return result["global_step"], result["steps"]

  def predict(self):
    steps = {float(each["steps"]) for each in self._estimator.predict(programs.examples(32))}
    assert len(steps) == 1, steps
    return steps.pop(), None

  def predict_with_an_evaluation_between(self):
    predictions = self._estimator.predict(programs.examples(32))
    first = float(next(predictions)["steps"])
    self._estimator.evaluate(programs.examples(8))
    rest = {float(each["steps"]) for each in predictions}
    assert rest == {first}, (first, rest)
    return first, None

  def export(self):
    base = os.path.join(self._elsewhere, "export")
    path = self._estimator.export_saved_model(base)
    served = tf.saved_model.load(path).signatures["serving_default"]
    steps = served(x=tf.zeros([1, programs.WIDTH]))["steps"]
    return trainer.outputs.description.read(path)["global_step"], float(steps[0])

  def get_variable_value(self):
    return float(self._estimator.get_variable_value("steps")), None

  def warm_start(self):
    steps = tf.Variable(0.0)
    warm_start.apply(warm_start.WarmStartSettings(self._folder), {"steps": steps}, own={"steps"})
    return float(steps), None

  def commands(self):
    main.list_checkpoints(self._folder)
    main.show(self._folder, stats=True)
    return 0, None


def read_only():
  """From here on, no process can write a lease."""
  write = storage.write

  def refuse(path, content):
    if ".lease-" in path:
      raise tf.errors.PermissionDeniedError(None, None, f"{path}; Permission denied")
    write(path, content)

  storage.write = refuse


def newest(folder):
  return max(directory.CheckpointDirectory(folder).steps(), default=0)


@contextlib.contextmanager
def training(folder):
  command = [sys.executable, "-m", "tests.slow.readers_beside_training", f"--train={folder}"]
  with open(os.path.join(folder, "log"), "w") as log:
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
  try:
    while newest(folder) < 10:
      assert process.poll() is None, f"the training has ended: see {log.name}"
      time.sleep(_PAUSE)
    yield process
  finally:
    process.kill()
    process.wait()


def run(reads, kinds=None):
  """Returns (kind → number of successful reads, kind → number of failed reads, problems)."""
  served, failed, reasons = collections.Counter(), collections.Counter(), []
  with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
    with training(folder):
      ways = Readers(folder, elsewhere).kinds
      chosen = [kind for kind in ways if not kinds or kind in kinds]
      start, first = time.monotonic(), newest(folder)
      for index in range(reads):
        kind = chosen[index % len(chosen)]
        try:
          expected, found = ways[kind]()
          assert found is None or np.float32(expected) == found, (expected, found)
          served[kind] += 1
        except (errors.OctetError, AssertionError, OSError, tf.errors.OpError) as error:
          failed[kind] += 1
          reasons.append(f"{kind}: {type(error).__name__}: {error}")
      saves = (newest(folder) - first) / 5 / (time.monotonic() - start)
    left = [name for name in os.listdir(folder) if ".lease-" in name]
  print(f"{saves:.1f} saves a second beside the reads")
  assert not left, left
  return served, failed, reasons


def main_():
  parser = argparse.ArgumentParser()
  parser.add_argument("--reads", type=int, default=100)
  parser.add_argument("--kinds", default="")
  parser.add_argument("--read_only", action="store_true")
  parser.add_argument("--train", default="", help="be the training in this folder")
  arguments = parser.parse_args()
  if arguments.train:
    make(arguments.train).train(programs.train_input, max_steps=10**9)
    return
  if arguments.read_only:
    read_only()
  served, failed, reasons = run(arguments.reads, list(filter(None, arguments.kinds.split(","))))
  for kind in sorted({*served, *failed}):
    print(f"{kind:<34}{served[kind]:>4} served{failed[kind]:>4} not")
  print(f"{served.total()} of {arguments.reads} reads were served")
  for reason in reasons[:10]:
    print(f"  {reason[:300]}")
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main_()
