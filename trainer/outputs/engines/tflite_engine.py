"""TensorFlow Lite: for phones and small boards.

It is tried here on the CPU, and can compute in int8.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from trainer.outputs import freezing
from trainer.outputs.engines import engine


def convert(frozen: freezing.Frozen, sample: Callable | None = None) -> bytes:
  """A TFLite model.

  Args:
    frozen: the frozen signature.
    sample: for int8: function that returns an iterator of dicts of features of one example each
      ([1, ...]), from which the range of every tensor is learnt. Inputs and outputs stay float32.
  """
  module = tf.Module()
  specs = [
    tf.TensorSpec(tensor.shape, tensor.dtype, name)
    for name, tensor in zip(frozen.inputs, frozen.function.inputs, strict=True)
  ]
  module.serve = tf.function(
    lambda *tensors: dict(zip(frozen.outputs, frozen.function(*tensors), strict=True)),
    input_signature=specs,
    autograph=False,
  )
  converter = tf.lite.TFLiteConverter.from_concrete_functions(
    [module.serve.get_concrete_function()], module
  )
  if sample is not None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: (
      [example[name] for name in frozen.inputs] for example in sample()
    )
  with _silence():
    return converter.convert()


@contextlib.contextmanager
def _silence():
  """Without what the converter's library writes to the terminal."""
  kept = os.dup(2)
  with open(os.devnull, "w") as nowhere:
    os.dup2(nowhere.fileno(), 2)
  try:
    yield
  finally:
    os.dup2(kept, 2)
    os.close(kept)


class TfliteEngine(engine.Engine):
  """Runs a TFLite model, one call at a time.

  Args:
    model: what `convert` gives.
    threads: of one call.
  """

  name = "tflite"

  def __init__(self, model: bytes, threads: int | None = None):
    with _silence():
      self._interpreter = tf.lite.Interpreter(
        model_content=model, num_threads=threads or engine.cpu_count()
      )
      self._runner = self._interpreter.get_signature_runner()
    self._lock = threading.Lock()

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    with self._lock:
      return {name: np.array(array) for name, array in self._runner(**features).items()}
