"""Exceptions of a program's own functions."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from trainer import errors


@contextlib.contextmanager
def as_raised() -> Iterator[None]:
  """Inside, an exception of a model_fn leaves as the model_fn raised it, as in 2.15.

  What Octet says of it, as the mode and the shapes of the input, is a note of it.
  """
  try:
    yield
  except errors.ModelFnError as error:
    cause = error.__cause__
    if cause is None or isinstance(cause, errors.OctetError | tf.errors.OpError):
      raise
    cause.add_note(str(error))
    raise cause from None
