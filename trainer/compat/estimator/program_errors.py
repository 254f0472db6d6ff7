"""What surrounds the calls of a program: it may build a graph, and its functions may raise."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.compat.graph_mode import habits
from trainer.internals import tensorflow_internals


@contextlib.contextmanager
def of_program() -> Iterator[None]:
  """A context for what a program asks of an Estimator.

  A graph that the program builds, as its tests do, is not that of the model_fn. An exception of the
  model_fn leaves as the model_fn raised it, as in 2.15; what Octet says of it, as the mode and the
  shapes of the input, is a note of it.
  """
  try:
    with tensorflow_internals.outside_graphs(), habits.disable():
      yield
  except errors.ModelFnError as error:
    cause = error.__cause__
    if cause is None or isinstance(cause, errors.OctetError | tf.errors.OpError):
      raise
    cause.add_note(str(error))
    raise cause from None


def each_of_program(values: Iterator[Any]) -> Iterator[Any]:
  """Yields values, each of which is made in such a context."""
  while True:
    with of_program():
      found = next(values, values)
    if found is values:
      return
    yield found
