"""What the steps of one program give, in variables of each core's own, until the host reads them.

    totals = CoreTotals(store)
    totals.add(step, loss, tensors)   # on a replica, in each step of a training
    results = CoreResults(store, "eval", groups=64, limit_bytes=2**26)
    results.keep(index, (loss, tensors))  # on a replica, for each group
    results.variables()  # which the host reads, once a program

A program that handed over each step's results would have the host wait for each step. No checkpoint
holds these variables.
"""

from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.settings.kinds import Kind
from trainer.tracing import assignments, variable_store

_WHAT = {Kind.TRAIN: "host_call", Kind.EVAL: "eval_metrics", Kind.PREDICT: "predictions"}


class TooLarge(Exception):
  """The results of so many groups take more bytes than they may.

  Attributes:
    groups: how many may be one program.
  """

  def __init__(self, groups: int) -> None:
    super().__init__(f"The results of {groups} groups take as many bytes as they may.")
    self.groups = groups


class CoreTotals:
  """The totals of the training steps of one loop.

  Args:
    store: the VariableStore whose `run` traces the steps.
  """

  def __init__(self, store: variable_store.VariableStore) -> None:
    self._store = store
    self._sums: list[tf.Variable] = []
    self._host_tensors: Any = {}  # variables, in the structure of the host_call's tensors

  def add(self, step: tf.Tensor, loss: tf.Tensor, host_tensors: Any) -> None:
    """Adds a step's results, on a replica.

    Args:
      step: int64 scalar, the number of the step; the first step of a training is 1.
      loss: float32 scalar, this replica's loss.
      host_tensors: nest of the tensors of the host_call; keeps the newest step's.

    Raises:
      SpecError: a tensor's shape is unknown at the trace of the step.
    """
    with tf.name_scope(""):
      # In float64, since a loop may have many thousand steps.
      loss_sum = self._store.scratch("loop_totals/loss_sum", tf.float64)
      non_finite_step = self._store.scratch("loop_totals/non_finite_step", tf.int64)
      loss_sum.assign_add(tf.cast(loss, tf.float64))
      first = non_finite_step.read_value()  # 0: none yet
      is_first = tf.equal(first, 0) & ~tf.math.is_finite(loss)
      non_finite_step.assign(tf.where(is_first, step, first))
      leaves = _checked(host_tensors, Kind.TRAIN)
      kept = [
        _variable(self._store, f"loop_totals/host_call_{place}", leaf.dtype, leaf.shape)
        for place, leaf in enumerate(leaves)
      ]
      for variable, leaf in zip(kept, leaves, strict=True):
        variable.assign(leaf)
    self._sums = [loss_sum, non_finite_step]
    self._host_tensors = tf.nest.pack_sequence_as(host_tensors, kept)

  def sums(self) -> list[tf.Variable]:
    """Returns (the sum of the losses, the first step with a loss that is not finite, or 0)."""
    return self._sums

  def host_variables(self) -> Any:
    """Returns the variables that hold the host_call's tensors, in their structure."""
    return self._host_tensors

  def variables(self) -> list[tf.Variable]:
    """Returns all variables of the totals."""
    return [*self._sums, *tf.nest.flatten(self._host_tensors)]


class CoreResults:
  """The results of one program of an evaluation or a prediction.

  Args:
    store: the VariableStore whose `run` traces the groups.
    kind: "eval" or "predict".
    groups: the largest number of groups in a program.
    limit_bytes: the largest size of the results on one core.
  """

  def __init__(
    self, store: variable_store.VariableStore, kind: Kind, groups: int, limit_bytes: int
  ) -> None:
    self._store = store
    self._kind = kind
    self._groups = groups
    self._limit_bytes = limit_bytes
    self._variables: Any = None  # [groups, ...] on each core, in the structure of a group's results

  def keep(self, index: tf.Tensor, results: Any) -> None:
    """Keeps a group's results, on a replica.

    Args:
      index: int32 scalar, the group's place.
      results: nest of tensors.

    Raises:
      SpecError: a tensor's shape is unknown at the trace of the group.
      TooLarge: a program of so many groups would exceed the limit. The trace had no effect.
    """
    leaves = _checked(results, self._kind)
    bytes_of_group = sum(leaf.shape.num_elements() * leaf.dtype.size for leaf in leaves)
    if self._groups * bytes_of_group > self._limit_bytes:
      raise TooLarge(self._limit_bytes // bytes_of_group)
    with tf.name_scope(""), assignments.allow():
      kept = [self._kept(place, leaf, index) for place, leaf in enumerate(leaves)]
    self._variables = tf.nest.pack_sequence_as(results, kept)

  def _kept(self, place, leaf, index):
    name = f"group_results/{self._kind}/{place}"
    variable = _variable(self._store, name, leaf.dtype, [self._groups, *leaf.shape])
    if leaf.shape.num_elements():  # TensorFlow refuses to scatter nothing.
      variable.assign(tf.tensor_scatter_nd_update(variable.read_value(), [[index]], [leaf]))
    return variable

  def variables(self) -> Any:
    """Returns the variables that hold the results, in the structure of a group's."""
    return self._variables


def _checked(nest, kind):
  """Returns the tensors of a nest; raises SpecError for an unknown shape."""
  for leaf in tf.nest.flatten(nest):
    if not tf.TensorShape(leaf.shape).is_fully_defined():
      raise errors.SpecError(
        f"{_WHAT[kind]}: the tensor {leaf.name} has shape {leaf.shape}: a program of several steps "
        "or groups (TPUConfig.steps_per_program) needs its full shape."
      )
  return [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(nest)]


def _variable(store, name, dtype, shape):
  # The shape is part of the name: runs with other inputs share the store.
  sizes = "x".join(str(size) for size in shape)
  return store.scratch(f"{name}/{dtype.name}_{sizes}", dtype, tuple(shape))
