"""Replaces the learning rate of each optimizer that a training step applies.

with replaced_rates.scope(schedules.exponential(1e-6, factor=1e7, every=199)) as optimizers:
  ...  # trace a training step
optimizers  # ["Adam"], the classes of those that were replaced
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
  """Replaces learning rates inside a `with` block, which is entered around the trace of a step.

  Args:
    schedule: of `trainer.optimization.schedules`, which follows the global step.

  Yields:
    A list that gets the class name of each optimizer whose rate was replaced.
  """
  optimizers: list[str] = []
  with patches.set_context(_asked, (schedule, optimizers)):
    yield optimizers


def replace(optimizer: Any) -> None:
  """Gives an optimizer the learning rate that is asked for here, if one is.

  Call it in the graph in which the optimizer is about to be applied.

  Args:
    optimizer: of Keras or of `tf.compat.v1.train`.
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
      # A tensor: not all of these optimizers call a function that is given as the rate.
      setattr(optimizer, name, schedule())
    replaced = bool(found)
  if replaced and (name := type(optimizer).__name__) not in optimizers:
    optimizers.append(name)
