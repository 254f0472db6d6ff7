"""Trains on eight cores, and evaluates, predicts and exports on one; then the other way round.

Each run is a process of its own.

Example:
    python -m tests.slow.other_process
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from input_pipelines import digits
from trainer.outputs import exporters
from trainer.reporting import metrics_file

DEVICES = ("cpu:8", "cpu")


def command(model_dir, mode, device):
  subprocess.run(
    [
      sys.executable,
      "-m",
      "trainer.main",
      "--gin_file=gin_configs/digits.gin",
      f"--model_dir={model_dir}",
      f"--mode={mode}",
      f"--device={device}",
      "--gin_bindings=run.train_steps = 200",
      "--gin_bindings=run.train_batch_size = 32",
      "--gin_bindings=run.eval_batch_size = 64",
    ],
    check=True,
    capture_output=True,
  )


def probabilities(model_dir, device):
  """Returns float [examples, classes] from another process."""
  command(model_dir, "predict", device)
  (path,) = tf.io.gfile.glob(os.path.join(model_dir, "predictions-*.jsonl"))
  with open(path) as file:
    found = np.array([json.loads(line)["probabilities"] for line in file])
  os.remove(path)
  return found


def served(model_dir):
  """Returns the same from the SavedModel, with TensorFlow alone."""
  model = tf.saved_model.load(exporters.newest(os.path.join(model_dir, "export")))
  features = [features for features, _ in digits.input_fn({"batch_size": 360}, split="test")]
  return np.concatenate(
    [model.signatures["serving_default"](**batch)["probabilities"].numpy() for batch in features]
  )


def evaluated(model_dir, device):
  command(model_dir, "evaluate", device)
  return [line for line in metrics_file.read(model_dir) if line["kind"] == "eval"][-1]


def main():
  for trained, other in (DEVICES, DEVICES[::-1]):
    with tempfile.TemporaryDirectory() as model_dir:
      command(model_dir, "train_and_evaluate", trained)
      own = probabilities(model_dir, trained)
      differences = {
        "predictions": np.abs(probabilities(model_dir, other) - own).max(),
        "the SavedModel's": np.abs(served(model_dir) - own).max(),
        "loss": abs(evaluated(model_dir, trained)["loss"] - evaluated(model_dir, other)["loss"]),
      }
      assert all(difference <= 1e-6 for difference in differences.values()), differences
      print(
        f"trained on {trained}, used on {other}: "
        f"{', '.join(f'{name} differ by {value:.2g}' for name, value in differences.items())}"
      )


if __name__ == "__main__":
  main()
