"""A graph for inference alone: variables are constants, what follows from constants is computed,
and scales and shifts (batch norm) are part of the convolution or the dense layer beside them, see
`outputs.folding`.

    frozen = freeze(tf.saved_model.load(path).signatures["serving_default"])
    frozen(image=batch)["probabilities"]
"""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.outputs import folding, rewriting


@dataclasses.dataclass(frozen=True)
class Frozen:
  """A frozen signature: called with tensors by name, it returns a dict of tensors.

  Attributes:
    graph_def: the GraphDef.
    inputs, outputs: dict of name → the tensor's name in the graph, "image:0".
    function: the same as a WrappedFunction of the inputs, in order.
    folded: how many scales and shifts are parts of other operations now.
  """

  graph_def: tf.compat.v1.GraphDef
  inputs: Mapping[str, str]
  outputs: Mapping[str, str]
  function: Callable
  folded: int

  def __call__(self, **tensors):
    return dict(
      zip(self.outputs, self.function(*(tensors[name] for name in self.inputs)), strict=True)
    )


def freeze(signature: Callable, fold: bool = True) -> Frozen:
  """The frozen graph of a signature of a loaded SavedModel.

  Args:
    signature: a ConcreteFunction of keywords that returns a dict.
    fold: whether scales and shifts are folded.
  """
  frozen = tensorflow_internals.with_constants(signature)
  # The frozen function's outputs are in the order of the sorted names, as nests are flattened.
  outputs = dict(
    zip(
      sorted(signature.structured_outputs), (tensor.name for tensor in frozen.outputs), strict=True
    )
  )
  inputs = {tensor.name.partition(":")[0]: tensor.name for tensor in frozen.inputs}
  graph = rewriting.Graph(
    frozen.graph.as_graph_def(), list(inputs.values()), list(outputs.values())
  )
  graph.compute_constants()
  folded = folding.fold(graph) if fold else 0
  graph_def = graph.prune()
  wrapped = rewriting.wrap(graph_def)
  function = wrapped.prune(
    [wrapped.graph.get_tensor_by_name(name) for name in inputs.values()],
    [wrapped.graph.get_tensor_by_name(name) for name in outputs.values()],
  )
  return Frozen(graph_def, inputs, outputs, function, folded)
