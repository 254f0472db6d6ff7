"""Replaces the learning rate of each optimizer in a training step.

with replaced_rates.scope(schedules.exponential(1e-6, factor=1e7, every=199)) as optimizers:
  ...  # trace a training step
    optimizers  # ["Adam"], the classes of the optimizers with a replaced rate
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras

from trainer.internals import patches

# What optimizers of tf.compat.v1.train and their subclasses call it.
_NAMES = ("learning_rate", "_learning_rate", "_lr")

# The schedule, and the list that gets the names of classes.
_asked: contextvars.ContextVar[tuple[Any, list[str]] | None] = contextvars.ContextVar(
  "replaced learning rate", default=None
)


@contextlib.contextmanager
def scope(schedule: keras.optimizers.schedules.LearningRateSchedule) -> Iterator[list[str]]:
  """Replaces learning rates in a `with` block around the trace of a step.

  Args:
    schedule: from `trainer.optimization.schedules`; it follows the global step.

  Yields:
    A list that receives the class name of each optimizer with a replaced rate.
  """
  optimizers: list[str] = []
  with patches.set_context(_asked, (schedule, optimizers)):
    yield optimizers


def replace(optimizer: Any) -> None:
  """Gives an optimizer the learning rate of the enclosing `scope`, if any.

  Call it in the graph that will apply the optimizer.

  Args:
    optimizer: an optimizer of Keras or of `tf.compat.v1.train`.
  """
  asked = _asked.get()
  if asked is None:
    return
  schedule, optimizers = asked
  if isinstance(optimizer, keras.optimizers.Optimizer):
    # Keras's setter takes a schedule also where there was a number, and a number only there.
    optimizer.learning_rate = schedule
    replaced = True
  else:
    found = [name for name in _NAMES if getattr(optimizer, name, None) is not None]
    for name in found:
      # A tensor: some of these optimizers do not call a function as the rate.
      setattr(optimizer, name, schedule())
    replaced = bool(found)
  if replaced and (name := type(optimizer).__name__) not in optimizers:
    optimizers.append(name)
