"""Whether a trace uses this package's versions instead of Keras's."""

import contextlib
import contextvars

from trainer.internals import patches

is_on = contextvars.ContextVar("Keras's operations for CPUs are replaced", default=False)


def use() -> contextlib.AbstractContextManager[None]:
  """Returns a context in which this package replaces Keras's operations."""
  return patches.set_context(is_on, True)
