"""Makes a graph for inference only.

Variables become constants. Operations on constants become constants. Batch normalization becomes
part of the convolution or dense layer beside it, see `outputs.folding`.

    frozen = freeze(tf.saved_model.load(path).signatures["serving_default"])
    frozen(image=batch)["probabilities"]
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.outputs import folding, rewriting


@dataclasses.dataclass(frozen=True)
class Frozen:
  """A frozen signature. Call it with tensors by name; it returns name → tensor.

  Attributes:
    graph_def: the graph.
    inputs: name of an input → name of its tensor in the graph, "image:0".
    outputs: name of an output → name of its tensor in the graph.
    function: the graph as a WrappedFunction. It takes the inputs and returns the outputs in order.
    folded: number of folded scales and shifts.
  """

  graph_def: tf.compat.v1.GraphDef
  inputs: Mapping[str, str]
  outputs: Mapping[str, str]
  function: tf.types.experimental.ConcreteFunction
  folded: int

  def __call__(self, **tensors: tf.Tensor) -> dict[str, tf.Tensor]:
    """Runs the graph on tensors by name; returns name → tensor."""
    return dict(
      zip(self.outputs, self.function(*(tensors[name] for name in self.inputs)), strict=True)
    )


def freeze(signature: tf.types.experimental.ConcreteFunction, fold: bool = True) -> Frozen:
  """Freezes a signature of a loaded SavedModel.

  Args:
    signature: a ConcreteFunction that takes keywords and returns a dict.
    fold: whether to fold scales and shifts.
  """
  frozen = tensorflow_internals.with_constants(signature)
  # The frozen function returns a flat list: the outputs in the order of their sorted names.
  outputs = dict(
    zip(
      sorted(signature.structured_outputs), (tensor.name for tensor in frozen.outputs), strict=True
    )
  )
  # TensorFlow names the placeholders of a signature after its arguments.
  inputs = {tensor.name.partition(":")[0]: tensor.name for tensor in frozen.inputs}
  graph = rewriting.Graph(
    frozen.graph.as_graph_def(), list(inputs.values()), list(outputs.values())
  )
  # The order is important: only a constant scale can fold.
  graph.compute_constants()
  folded = folding.fold(graph) if fold else 0
  graph_def = graph.prune()
  wrapped = rewriting.wrap(graph_def)
  function = wrapped.prune(
    [wrapped.graph.get_tensor_by_name(name) for name in inputs.values()],
    [wrapped.graph.get_tensor_by_name(name) for name in outputs.values()],
  )
  return Frozen(graph_def, inputs, outputs, function, folded)
