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
      file.write("")  # which makes the file, also where there are no predictions
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
  plain = {"S": _text, "O": _text, "f": _number, "V": _number}.get(array.dtype.kind)  # V: bfloat16, which numpy does not know
  if plain is None:
    return array.tolist()
  values = array.astype(np.float64) if plain is _number else array
  return np.array([plain(value) for value in values.ravel()], object).reshape(array.shape).tolist()


def _text(value):
  return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _number(value):
  """A float of the seven digits that a float32 has; None, JSON's null, for what is no number."""
  return float(f"{value:.7g}") if np.isfinite(value) else None
