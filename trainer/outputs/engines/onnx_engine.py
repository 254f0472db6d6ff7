"""The engine ONNX Runtime. The extra [onnx] installs it, with tf2onnx for the conversion."""

import logging
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from trainer.cli import processes
from trainer.outputs import freezing
from trainer.outputs.engines import engine

_OPSET = 17


def convert(frozen: freezing.Frozen) -> bytes:
  """Converts a frozen signature.

  Returns:
    A serialised ONNX model. Its inputs and outputs have the signature's names.
  """
  import tf2onnx

  logging.getLogger("tf2onnx").setLevel(logging.ERROR)
  logging.getLogger("tensorflow").addFilter(_is_ours)  # Adding it again has no effect.
  model, _ = tf2onnx.convert.from_graph_def(
    _without_erfc(frozen.graph_def),
    input_names=list(frozen.inputs.values()),
    output_names=list(frozen.outputs.values()),
    opset=_OPSET,
  )
  for tensors, names in ((model.graph.input, frozen.inputs), (model.graph.output, frozen.outputs)):
    _rename(model.graph, tensors, {tensor: name for name, tensor in names.items()})
  return model.SerializeToString()


def _without_erfc(graph_def):
  """The graph with 1 - erf(x) for the erfc(x) of Keras's gelu; tf2onnx 1.17 does not know erfc."""
  written = tf.compat.v1.GraphDef()
  written.CopyFrom(graph_def)
  for node in [node for node in written.node if node.op == "Erfc"]:
    one = written.node.add(name=f"{node.name}/one", op="Const")
    one.attr["dtype"].type = node.attr["T"].type
    dtype = tf.as_dtype(node.attr["T"].type)
    one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1, dtype))
    erf = written.node.add(name=f"{node.name}/erf", op="Erf")
    erf.attr["T"].type = node.attr["T"].type
    erf.input.extend(node.input)
    node.op = "Sub"
    node.input[:] = [one.name, erf.name]
  return written


def _is_ours(record):
  """Returns False for TensorFlow's warnings about deprecated functions that tf2onnx calls."""
  return not any(
    "tf2onnx" in str(argument) or argument == "extract_sub_graph" for argument in record.args or ()
  )


def _rename(graph, tensors, names):
  """Renames inputs or outputs to the signature's names, wherever nodes use them."""
  taken = {name for node in graph.node for name in (*node.input, *node.output)}
  for tensor in tensors:
    wanted = names[tensor.name]
    if wanted == tensor.name:
      continue
    if wanted in taken:  # A tensor inside of the graph has the name: rename that tensor.
      _replace(graph, wanted, f"{wanted}/inside")
    _replace(graph, tensor.name, wanted)
    tensor.name = wanted


def _replace(graph, name, by):
  for node in graph.node:
    node.input[:] = [by if used == name else used for used in node.input]
    node.output[:] = [by if made == name else made for made in node.output]


class OnnxEngine(engine.Engine):
  """Runs an ONNX model.

  Args:
    model: the serialised model of `convert`.
    threads: number of threads of a call; None for all CPUs.
  """

  name = "onnx"

  def __init__(self, model: bytes, threads: int | None = None) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or processes.cpu_count()
    options.log_severity_level = 3
    self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    self._names = [output.name for output in self._session.get_outputs()]

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    return dict(zip(self._names, self._session.run(None, dict(features)), strict=True))
