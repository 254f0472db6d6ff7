"""The engine OpenVINO reads the frozen graph itself. The extra [openvino] installs it."""

import logging
import os
import queue
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer.cli import processes
from trainer.outputs import freezing
from trainer.outputs.engines import engine

_PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}


def _import():
  """Imports openvino, and restores the root logger: the import changes its handlers and level."""
  root = logging.getLogger()
  handlers, level = list(root.handlers), root.level
  import openvino

  for handler in handlers:
    if handler not in root.handlers:
      root.addHandler(handler)
  root.setLevel(level)
  return openvino


def convert(frozen: freezing.Frozen, path: str) -> None:
  """Writes a frozen signature in OpenVINO's format, to <path>.xml and <path>.bin."""
  openvino = _import()
  openvino.save_model(read(frozen), f"{path}.xml", compress_to_fp16=False)


def read(frozen: freezing.Frozen) -> Any:
  """Makes an openvino.Model. Its inputs and outputs have the signature's names."""
  openvino = _import()
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "frozen.pb")
    with open(path, "wb") as file:
      file.write(frozen.graph_def.SerializeToString())
    model = openvino.Core().read_model(path)
  for tensors, names in ((model.inputs, frozen.inputs), (model.outputs, frozen.outputs)):
    known = {tensor: name for name, tensor in names.items()}
    # OpenVINO writes a tensor's name with or without ":0".
    known |= {tensor.removesuffix(":0"): name for tensor, name in known.items()}
    for tensor in tensors:
      tensor.get_tensor().set_names({next(known[name] for name in tensor.names if name in known)})
  return model


class OpenVinoEngine(engine.Engine):
  """Runs an OpenVINO model.

  Args:
    model: an openvino.Model, or the path of an .xml file.
    threads: number of threads of a call; None for all CPUs.
    precision: "float32", or "bfloat16" if the processor supports it.
    in_parts: whether to cut a batch into parts, each for one or a few threads. Then threads need
      not wait for each other after every layer. Otherwise all threads work on the whole batch.
  """

  def __init__(
    self, model: Any, threads: int | None = None, precision: str = "float32", in_parts: bool = False
  ) -> None:
    openvino = _import()
    self.name = "openvino_parts" if in_parts else "openvino"
    settings = {
      "INFERENCE_PRECISION_HINT": _PRECISIONS[precision],
      "INFERENCE_NUM_THREADS": threads or processes.cpu_count(),
      "PERFORMANCE_HINT": "THROUGHPUT" if in_parts else "LATENCY",
    }
    core = openvino.Core()
    model = core.read_model(model) if isinstance(model, str) else model
    # The compiled model may have further names for an output, of operations that it merges.
    self._names = [output.any_name for output in model.outputs]
    self._compiled = core.compile_model(model, "CPU", settings)
    self._parts = int(self._compiled.get_property("NUM_STREAMS"))
    # Inference requests that no thread uses now. A request serves one thread at a time.
    self._idle: queue.SimpleQueue = queue.SimpleQueue()

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    rows = len(next(iter(features.values())))
    bounds = np.linspace(0, rows, min(self._parts, rows) + 1).astype(int)
    requests = [self._request() for _ in bounds[1:]]
    for request, first, last in zip(requests, bounds[:-1], bounds[1:], strict=True):
      request.start_async(
        {name: array[first:last] for name, array in features.items()}, share_inputs=True
      )
    for request in requests:
      request.wait()
    outputs = {name: _joined(requests, place) for place, name in enumerate(self._names)}
    for request in requests:
      self._idle.put(request)
    return outputs

  def _request(self):
    try:
      return self._idle.get_nowait()
    except queue.Empty:
      return self._compiled.create_infer_request()


def _joined(requests, place):
  """Copies an output of all requests into one new array."""
  return np.concatenate([request.get_output_tensor(place).data for request in requests])
