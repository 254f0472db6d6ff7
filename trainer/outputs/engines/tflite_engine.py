"""The engine TensorFlow Lite is for phones and small boards. It can compute in int8.

TensorFlow announces that tf.lite.Interpreter will leave it for the package ai-edge-litert. So an
installed ai-edge-litert (the extra [litert]) runs the model. TensorFlow still converts.
"""

import contextlib
import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.cli import installation, processes
from trainer.outputs import freezing
from trainer.outputs.engines import engine


def convert(frozen: freezing.Frozen, sample: Callable | None = None) -> bytes:
  """Converts a frozen signature; returns the TFLite model.

  Args:
    frozen: the signature.
    sample: None for float32. For int8, a function that returns an iterator of examples: name →
      feature [1, ...]. The examples show the range of every tensor. Inputs and outputs stay
      float32.
  """
  converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen.function], tf.Module())
  if sample is not None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: (
      [example[name] for name in frozen.inputs] for example in sample()
    )
  with _silence():
    return converter.convert()


@contextlib.contextmanager
def _silence():
  """Discards the library's output to the descriptor of stderr; it does not use sys.stderr."""
  kept = os.dup(2)
  with open(os.devnull, "w") as nowhere:
    os.dup2(nowhere.fileno(), 2)
  try:
    yield
  finally:
    os.dup2(kept, 2)
    os.close(kept)


def find_interpreter() -> Any:
  """Returns the class Interpreter of an installed ai-edge-litert, otherwise TensorFlow's.

  Raises:
    SettingError: this TensorFlow has none, and ai-edge-litert is missing.
  """
  if importlib.util.find_spec("ai_edge_litert") is not None:
    from ai_edge_litert import interpreter

    return interpreter.Interpreter
  if not hasattr(tf.lite, "Interpreter"):
    raise errors.SettingError(
      f"TensorFlow {tf.__version__} runs no TensorFlow Lite models, ai-edge-litert does: "
      f"`{installation.command('litert')}` brings it."
    )
  return tf.lite.Interpreter


class TfliteEngine(engine.Engine):
  """Runs a TFLite model, one call at a time.

  Args:
    model: the TFLite model of `convert`.
    threads: number of threads of a call; None for all CPUs.
  """

  name = "tflite"

  def __init__(self, model: bytes, threads: int | None = None) -> None:
    make = find_interpreter()
    with _silence():
      # The runner uses the interpreter's memory, and does not keep it alive.
      self._interpreter = make(model_content=model, num_threads=threads or processes.cpu_count())
      self._runner = self._interpreter.get_signature_runner()
    self._lock = threading.Lock()

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    with self._lock:
      return {name: np.array(array) for name, array in self._runner(**features).items()}
