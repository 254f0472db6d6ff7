"""Predictions as JSON lines: one object for each example, in order.

    <model_dir>/predictions-<step>.jsonl      {"class": 3, "probabilities": [0.01, ...]}
"""

import json

import numpy as np
import tensorflow as tf

from trainer import errors


def write(path, predictions):
  """Writes predictions, each a numpy array or a nest of them, and returns their number; OutputError if that cannot be done."""
  count = 0
  try:
    with tf.io.gfile.GFile(path + ".writing", "w") as file:
      for prediction in predictions:
        value = tf.nest.map_structure(_plain, prediction)
        file.write(json.dumps(value if isinstance(value, dict) else {"output": value}) + "\n")
        count += 1
    tf.io.gfile.rename(path + ".writing", path, overwrite=True)
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(f"The predictions cannot be written to {path} (--model_dir): {error}") from error
  return count


def _plain(array):
  array = np.asarray(array)
  if array.dtype.kind in "SO":
    return array.astype(str).tolist()
  # Seven digits are what a float32 has.
  return [float(f"{value:.7g}") for value in array] if array.dtype.kind == "f" and array.ndim == 1 else array.tolist()
