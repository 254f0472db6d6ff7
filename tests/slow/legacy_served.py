"""Serves a SavedModel the inputs of earlier predictions, and compares. Imports only TensorFlow.

python legacy_served.py SAVED_MODEL ASKED

ASKED is an .npz with `in/NAME` for the signature's inputs and `out/NAME` for the Estimator's
predictions. Prints a line of JSON: the number of examples, and by name the largest difference from
the prediction.
"""

import json
import sys

import numpy as np
import tensorflow as tf


def largest_differences(folder, asked):
  """Returns name of an output → the largest absolute difference from the prediction."""
  serve = tf.saved_model.load(folder).signatures["serving_default"]
  taken = {key.split("/", 1)[1]: asked[key] for key in asked.files if key.startswith("in/")}
  found = serve(**{name: tf.constant(value) for name, value in taken.items()})
  differences = {}
  for name, value in found.items():
    predicted = asked[f"out/{name}"]
    if value.shape != predicted.shape:
      raise SystemExit(f"{name}: served {value.shape}, predicted {predicted.shape}.")
    difference = value.numpy().astype(np.float64) - predicted
    differences[name] = float(np.max(np.abs(difference)))
  return differences


def main(folder, asked):
  values = np.load(asked, allow_pickle=True)  # serialized examples are objects
  examples = max(len(values[key]) for key in values.files if key.startswith("out/"))
  told = {"examples": examples, "differences": largest_differences(folder, values)}
  assert not any(name.split(".")[0] in ("trainer", "octet") for name in sys.modules)
  print(json.dumps(told))


if __name__ == "__main__":
  main(*sys.argv[1:])
