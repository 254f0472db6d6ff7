"""Writes values_2_15.json, with the numbers of TensorFlow 2.15. Run where that is installed:

python3.11 -m venv tf215
tf215/bin/pip install 'tensorflow-cpu==2.15.*' tf_slim
tf215/bin/python tests/compat/record_2_15.py
"""

import json
import pathlib
import sys
import types

HERE = pathlib.Path(__file__).parent


def namespace():
  """What the cases need, of TensorFlow 2.15 and tf_slim."""
  import tensorflow.compat.v1 as tf
  import tf_slim
  from keras.api._v1.keras.__internal__.legacy import rnn_cell
  from keras.src.legacy_tf_layers import normalization
  from tensorflow.python.framework import ops

  # Where 2.15.1 looks for Keras 2, which is here under its own name.
  sys.modules["tf_keras.legacy_tf_layers.normalization"] = normalization
  ops.Tensor, ops.IndexedSlices = tf.Tensor, tf.IndexedSlices  # where tf_slim 1.1.0 looks

  return types.SimpleNamespace(
    tf=tf,
    layers=tf.layers,
    contrib=tf_slim,
    slim=tf_slim,
    rnn=rnn_cell,
    arg_scope=tf_slim.arg_scope,
  )


def main():
  sys.path.insert(0, str(HERE))
  import cases_2_15

  ns = namespace()
  found = {name: cases_2_15.run(ns, case) for name, case in cases_2_15.CASES.items()}
  (HERE / "values_2_15.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
  main()
