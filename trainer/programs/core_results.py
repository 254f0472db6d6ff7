"""What the groups of one program give, in variables of each core's own, until the host reads them.

    results = CoreResults(store, "eval", groups=64, limit_bytes=2**26)
    results.keep(index, (loss, tensors))  # on a replica, for each group
    results.variables()  # which the host reads, once a program

A program that handed over each group's results would have the host wait for each group. No
checkpoint holds these variables.
"""

from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.settings.kinds import Kind
from trainer.tracing import assignments, variable_store

_WHAT = {Kind.EVAL: "eval_metrics", Kind.PREDICT: "predictions"}


class TooLarge(Exception):
  """The results of so many groups take more bytes than they may.

  Attributes:
    groups: how many may be one program.
  """

  def __init__(self, groups: int) -> None:
    super().__init__(f"The results of {groups} groups take as many bytes as they may.")
    self.groups = groups


class CoreResults:
  """The results of one program.

  Args:
    store: the VariableStore whose `run` traces the groups.
    kind: "eval" or "predict".
    groups: the largest number of groups in a program.
    limit_bytes: the largest size of the results on one core.

  Attributes:
    bytes_of_group: the bytes of one group's results on one core.
  """

  def __init__(
    self, store: variable_store.VariableStore, kind: str, groups: int, limit_bytes: int
  ) -> None:
    self._store = store
    self._kind = kind
    self._groups = groups
    self._limit_bytes = limit_bytes
    self._variables: Any = None  # [groups, ...] on each core, in the structure of a group's results
    self.bytes_of_group = 0

  def keep(self, index: tf.Tensor, results: Any) -> None:
    """Keeps a group's results, on a replica.

    Args:
      index: int32 scalar, the group's place.
      results: nest of tensors.

    Raises:
      SpecError: a tensor's shape is unknown at the trace of the group.
      TooLarge: a program of so many groups would exceed the limit. The trace had no effect.
    """
    leaves = [self._checked(leaf) for leaf in tf.nest.flatten(results)]
    self.bytes_of_group = sum(leaf.shape.num_elements() * leaf.dtype.size for leaf in leaves)
    if self._groups * self.bytes_of_group > self._limit_bytes:
      raise TooLarge(self._limit_bytes // self.bytes_of_group)
    with tf.name_scope(""), assignments.allow():
      kept = [self._kept(place, leaf, index) for place, leaf in enumerate(leaves)]
    self._variables = tf.nest.pack_sequence_as(results, kept)

  def _checked(self, leaf):
    if not tf.TensorShape(leaf.shape).is_fully_defined():
      raise errors.SpecError(
        f"{_WHAT[Kind(self._kind)]}: the tensor {leaf.name} has shape {leaf.shape}: a program of "
        "several groups (TPUConfig.steps_per_program) needs its full shape."
      )
    return tf.convert_to_tensor(leaf)

  def _kept(self, place, leaf, index):
    # The shape is part of the name: evaluations of several inputs share the store.
    shape = [self._groups, *leaf.shape]
    name = f"group_results/{self._kind}/{place}/{leaf.dtype.name}_{'x'.join(map(str, shape))}"
    variable = self._store.scratch(name, leaf.dtype, tuple(shape))
    if not leaf.shape.num_elements():  # TensorFlow refuses to scatter nothing.
      return variable
    variable.assign(tf.tensor_scatter_nd_update(variable.read_value(), [[index]], [leaf]))
    return variable

  def variables(self) -> Any:
    """Returns the variables that hold the results, in the structure of a group's."""
    return self._variables
