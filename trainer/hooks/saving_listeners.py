"""Checks saving listeners, which a training calls at each checkpoint; see `trainer.hooks`.

run.saving_listeners = [@my_listeners.Copy()]
"""

from collections.abc import Sequence
from typing import Any

from trainer import errors, spec

_METHODS = ("begin", "before_save", "after_save", "end")


def check(listeners: Sequence[Any], where: str) -> None:
  """Requires that each listener has all methods.

  Args:
    listeners: objects with the methods of tf.compat.v1.train.CheckpointSaverListener.
    where: the argument or setting with the listeners, for the error message.

  Raises:
    SettingError: an item is a class, or lacks a method.
  """
  for each in listeners:
    if isinstance(each, type):
      raise errors.SettingError(
        f"{where} has the class {each.__name__}, not a listener: call it, as in "
        f"@{each.__name__}() in gin."
      )
    missing = [name for name in _METHODS if not callable(getattr(each, name, None))]
    if missing:
      raise errors.SettingError(
        f"{where}: a listener has the methods {', '.join(_METHODS)}; {spec.name_of(each)} lacks "
        f"{', '.join(missing)}. The base class tf.compat.v1.train.CheckpointSaverListener has all."
      )
