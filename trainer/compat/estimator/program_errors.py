"""Contexts around a program's calls: a graph may be open, and its functions may raise errors."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.compat.graph_mode import habits
from trainer.internals import tensorflow_internals


@contextlib.contextmanager
def of_program() -> Iterator[None]:
  """Returns a context for a program's call of an Estimator.

  The program may have a graph open, as its tests do. Octet builds the model_fn outside of that
  graph. An exception of the model_fn reaches the program as in 2.15. Octet adds a note with the
  mode and the shapes of the input.
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
  """Yields values, and computes each in such a context."""
  while True:
    with of_program():
      found = next(values, values)
    if found is values:
      return
    yield found
