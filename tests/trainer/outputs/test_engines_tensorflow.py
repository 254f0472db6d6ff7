"""The engine TensorFlow, with arrays as a server has them."""

import numpy as np
import tensorflow as tf

from trainer.outputs import engines, freezing


def test_arrays_of_any_kind_go_in_and_come_out():
  @tf.function(
    input_signature=[
      {
        "x": tf.TensorSpec([None], tf.float32, "x"),
        "text": tf.TensorSpec([None], tf.string, "text"),
      }
    ]
  )
  def serve(features):
    return {
      "twice": 2 * features["x"],
      "text": tf.strings.join([features["text"], "!"]),
      "count": tf.size(features["x"]),
    }

  engine = engines.TensorFlowEngine(freezing.freeze(serve.get_concrete_function()))
  text = np.array([b"a", "é".encode(), b"\xff"], object)
  found = engine.predict_batch({"text": text, "x": np.arange(6, dtype=np.float32)[::2]})
  np.testing.assert_array_equal(found["twice"], np.float32([0, 4, 8]), strict=True)
  assert found["text"].tolist() == [b"a!", "é!".encode(), b"\xff!"]
  assert (found["count"].shape, int(found["count"])) == ((), 3)
  empty = engine.predict_batch({"text": text[:0], "x": np.zeros(0, np.float32)})
  assert empty["twice"].shape == (0,)
