"""Sums over the steps of a device loop, in variables that each core has for itself.

    totals = CoreTotals(store)
    totals.add(step, loss, tensors)   # on a replica, in each step
    totals.loss(), totals.host_tensors()  # once a loop, on one core that TensorFlow runs
    totals.variables()  # on XLA devices

If each step returned its loss, the host would wait for each step. The host reads these variables
at its reports. No checkpoint has them.
"""

from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.tracing import variable_store

_SCOPE = "loop_totals"


class CoreTotals:
  """The totals of the loops of one program.

  Args:
    store: the VariableStore whose `run` traces the steps.
  """

  def __init__(self, store: variable_store.VariableStore) -> None:
    self._store = store
    self._loss_sum: Any = None
    self._non_finite_step: Any = None
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
      self._loss_sum = self._store.scratch(f"{_SCOPE}/loss_sum", tf.float64)
      self._non_finite_step = self._store.scratch(f"{_SCOPE}/non_finite_step", tf.int64)
      self._loss_sum.assign_add(tf.cast(loss, tf.float64))
      first = self._non_finite_step.read_value()  # 0: none yet
      is_first = tf.equal(first, 0) & ~tf.math.is_finite(loss)
      self._non_finite_step.assign(tf.where(is_first, step, first))
      leaves = [self._kept(i, leaf) for i, leaf in enumerate(tf.nest.flatten(host_tensors))]
      self._host_tensors = tf.nest.pack_sequence_as(host_tensors, leaves)

  def _kept(self, index, tensor):
    if not tensor.shape.is_fully_defined():
      raise errors.SpecError(
        f"host_call: the tensor {tensor.name} has shape {tensor.shape}: a program of several steps "
        "(TPUConfig.steps_per_program) needs its full shape."
      )
    # The shape is part of the name: trainings with other inputs share the store.
    shape = "x".join(map(str, tensor.shape.as_list()))
    name = f"{_SCOPE}/host_call_{index}/{tensor.dtype.name}_{shape}"
    variable = self._store.scratch(name, tensor.dtype, tensor.shape)
    variable.assign(tensor)
    return variable

  def variables(self) -> list[tf.Variable]:
    """Returns the variables that hold the totals."""
    return [self._loss_sum, self._non_finite_step, *tf.nest.flatten(self._host_tensors)]

  def host_variables(self) -> Any:
    """Returns the variables that hold the host_call's tensors, in their structure."""
    return self._host_tensors

  def reset(self) -> None:
    """Resets the totals of one core."""
    for variable in (self._loss_sum, self._non_finite_step):
      variable.assign(tf.zeros_like(variable))

  def loss(self) -> tf.Tensor:
    """Returns the losses of one core, summed over the steps. float64 scalar."""
    return self._loss_sum.read_value()

  def non_finite_step(self) -> tf.Tensor:
    """Returns the first step with a loss that is not finite on one core, or -1. int64 scalar."""
    first = self._non_finite_step.read_value()
    return tf.where(first > 0, first, tf.constant(-1, tf.int64))

  def host_tensors(self) -> Any:
    """Returns the host_call's tensors of one core's newest step."""
    return tf.nest.map_structure(lambda variable: variable.read_value(), self._host_tensors)
