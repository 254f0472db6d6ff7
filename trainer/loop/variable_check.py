"""Checks variables for NaN and infinity, even while the loss stays finite.

A ReLU turns a NaN into 0, so one NaN in a batch can make weights NaN while the loss stays a number.
NaN stays in a variable, so a check between two device loops and before each checkpoint finds it.

    check = VariableCheck(store, workers)
    check.begin(0, checkpoint=None)
    check.after_loop(result, saves=False)  # raises NonFinite
    check.require(step)  # before a checkpoint of the step; raises NonFinite

Faults:

| variable                                   | NaN                     | infinity                |
|--------------------------------------------|-------------------------|-------------------------|
| weights, the slots of an optimizer, moving | always                  | if the training made it |
| averages of weights, accumulated gradients |                         |                         |
| statistics of a BatchNormalization, other  | if the training made it | never                   |
| untrained variables, constants             |                         |                         |
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.devices import workers as workers_lib
from trainer.loop import non_finite, outer_loop
from trainer.tracing import variable_store

# The next look comes after this many times the duration of the last one. So the looks between
# device loops take 0.25 % of a training, however short its loops and however large its variables.
_PAUSE = 400


@dataclasses.dataclass
class VariableCheck:
  """Checks the variables of one Estimator's trainings.

  Attributes:
    store: the VariableStore.
    workers: the Workers, which check at the same steps.
    clock: returns seconds.
    good_step: the newest global step after which no variable had a fault.
  """

  store: variable_store.VariableStore
  workers: workers_lib.Workers
  clock: Callable[[], float] = time.perf_counter
  good_step: int = 0

  def __post_init__(self) -> None:
    self._at_start: dict[str, str] = {}
    self._next_look = 0.0

  def begin(self, step: int, checkpoint: str | None) -> None:
    """Begins a training, whose variables have their first values.

    Args:
      step: the global step.
      checkpoint: path of the checkpoint of the values, or None.

    Raises:
      NonFiniteError: a weight, or a slot of an optimizer, is already NaN.
    """
    self._at_start = self._kinds()
    ill = {
      name: kind
      for name, kind in self._at_start.items()
      if kind == "NaN" and not self._is_statistic(name)
    }
    if ill:
      raise errors.NonFiniteError(non_finite.message_at_start(ill, checkpoint))
    self.good_step, self._next_look = step, 0.0

  def after_loop(self, result: outer_loop.LoopResult, saves: bool) -> None:
    """Checks the loss of a device loop, and the variables if a check is due.

    Args:
      result: the loop's result.
      saves: whether a checkpoint of its last step follows.

    Raises:
      NonFinite: a step's loss is not finite, or a variable has a fault.
    """
    # After a rollback the loop begins before the step of the last look.
    self.good_step = min(self.good_step, result.step - result.steps)
    non_finite.check_loss(result, self.good_step)
    if saves or self.workers.broadcast_from_chief(self.clock() >= self._next_look):
      self.require(result.step)

  def require(self, step: int) -> None:
    """Checks the variables after a global step.

    Raises:
      NonFinite: a variable has a fault.
    """
    started = self.clock()
    found = self.faults()
    ended = self.clock()
    self._next_look = ended + _PAUSE * (ended - started)
    if found:
      raise non_finite.NonFinite(step, self.good_step, variables=found)
    self.good_step = step

  def faults(self) -> dict[str, str]:
    """Returns the kind of each variable's fault, "NaN" or "infinite", by name."""
    return {
      name: kind
      for name, kind in self._kinds().items()
      if (kind == "NaN" and self._at_start.get(name) != "NaN")
      or (kind == "infinite" and name not in self._at_start)
    }

  def _numbers(self):
    """Returns the variables with a dtype that has NaN, by name."""
    return {
      name: variable
      for name, variable in self.store.variables.items()
      if variable.dtype.is_floating or variable.dtype.is_complex
    }

  def _kinds(self):
    """Returns "NaN" or "infinite" for each such variable, by name.

    Statistics are never "infinite".
    """
    self.store.bring_to_host()
    variables = self._numbers()
    if not variables:
      return {}
    kinds = {}
    # Eager: a trace would hold up the first step and checkpoint, for tens of milliseconds.
    sums = _sums_of_squares(list(variables.values())).numpy()
    for (name, variable), total in zip(variables.items(), sums, strict=True):
      if np.isnan(total):  # a sum of squares is NaN only if one of its terms is
        kinds[name] = "NaN"
      elif np.isinf(total) and not self._is_statistic(name) and _is_infinite(variable):
        kinds[name] = "infinite"
    return kinds

  def _is_statistic(self, name):
    variable = self.store.variables[name]
    return variable.synchronization == tf.VariableSynchronization.ON_READ


def _sums_of_squares(variables: Sequence[tf.Variable]) -> tf.Tensor:
  """Returns half the sum of the squares of each variable, float32 [variables].

  One operation reads a variable once and writes one number. The sum distinguishes NaN from
  infinity; it may also overflow.
  """
  return tf.stack([tf.cast(tf.nn.l2_loss(_real(variable)), tf.float32) for variable in variables])


def _is_infinite(variable: tf.Variable) -> bool:
  return bool(tf.reduce_any(tf.math.is_inf(_real(variable))))


def _real(variable: tf.Variable) -> tf.Tensor:
  """Returns the values of a variable, or their absolute values, as float32 or float64."""
  value = variable.read_value()
  if value.dtype.is_complex:
    value = tf.abs(value)
  return value if value.dtype == tf.float64 else tf.cast(value, tf.float32)
