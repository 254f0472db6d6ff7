"""tf.contrib.learn.monitors: monitors were an older kind of hook. None can be made here."""

from collections.abc import Iterable
from typing import Any


def replace_monitors_with_hooks(monitors_or_hooks: Iterable[Any] | None, estimator: Any) -> list:
  """Returns the hooks as a list; None becomes []."""
  del estimator
  return list(monitors_or_hooks or [])
