"""Freezes a signature for inference: its variables become constants, as engines read them.

frozen = freeze(tf.saved_model.load(path).signatures["serving_default"])
frozen(image=batch)["probabilities"]
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from trainer import errors
from trainer.internals import tensorflow_internals


@dataclasses.dataclass(frozen=True)
class Frozen:
  """A frozen signature. Call it with tensors by name; it returns name → tensor.

  Attributes:
    graph_def: the graph.
    inputs: name of an input → name of its tensor in the graph, "image:0".
    outputs: name of an output → name of its tensor in the graph.
    function: the graph as a ConcreteFunction that takes keywords and returns a dict.
  """

  graph_def: tf.compat.v1.GraphDef
  inputs: Mapping[str, str]
  outputs: Mapping[str, str]
  function: tf.types.experimental.ConcreteFunction

  def __call__(self, **tensors: tf.Tensor) -> dict[str, tf.Tensor]:
    """Runs the graph on tensors by name; returns name → tensor."""
    return self.function(**tensors)


def freeze(signature: tf.types.experimental.ConcreteFunction) -> Frozen:
  """Freezes a signature of a loaded SavedModel.

  Args:
    signature: a ConcreteFunction that takes keywords and returns a dict.

  Raises:
    SettingError: the signature has a state that no constant replaces, such as a look-up table, or a
      variable that it assigns.
  """
  try:
    constant = tensorflow_internals.with_constants(signature)
  except Exception as error:  # TensorFlow's converter raises errors of many kinds.
    raise errors.SettingError(
      f"no constant replaces a variable that the model assigns ({errors.first_line(error)})"
    ) from error
  if any(tensor.dtype == tf.resource for tensor in constant.inputs):
    raise errors.SettingError("no constant replaces its look-up table")
  # TensorFlow names the placeholders of a signature after its arguments.
  inputs = {tensor.name.partition(":")[0]: tensor for tensor in constant.inputs}
  # The frozen function returns a flat list: the outputs in the order of their sorted names.
  outputs = sorted(signature.structured_outputs)

  def serve(**tensors):
    results = tf.nest.flatten(constant(*(tensors[name] for name in inputs)))
    return dict(zip(outputs, results, strict=True))

  # TensorFlow calls `constant` itself more slowly: a call of a small model takes twice as long.
  function = tf.function(serve, autograph=False).get_concrete_function(
    **{name: tf.TensorSpec(each.shape, each.dtype, name) for name, each in inputs.items()}
  )
  return Frozen(
    constant.graph.as_graph_def(),
    {name: tensor.name for name, tensor in inputs.items()},
    {name: tensor.name for name, tensor in zip(outputs, constant.outputs, strict=True)},
    function,
  )
