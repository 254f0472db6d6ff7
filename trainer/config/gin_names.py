"""Registers names with gin, even in a locked configuration.

    @gin_names.configurable(module="trainer")
    class BestExporter: ...

`trainer`'s names load at first use. A program may call `gin.parse_config_files_and_bindings` first.
That locks the configuration, and a locked gin refuses registrations. gin protects bindings of late
names. Here no such binding can exist: it would have failed when gin parsed it.
"""

import threading
from collections.abc import Callable
from typing import Any

import gin

from trainer.settings import setting_types

# gin.unlock_config changes a flag of the whole process and puts it back: one thread at a time.
_lock = threading.Lock()


def configurable(name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
  """Works like gin.configurable, and checks settings by their types.

  A decorated function or class checks its arguments against their annotations, for any caller, and
  raises SettingError: see `trainer.settings.setting_types`.
  """

  def decorate(fn_or_cls):
    known_as = name or fn_or_cls.__name__
    module = settings.get("module", "trainer")
    if not f"{module}.".startswith("trainer."):
      known_as = f"{module}.{known_as}"
    checked = setting_types.check_settings(fn_or_cls, known_as)
    return _register(lambda: gin.configurable(name, **settings)(checked))

  return decorate


def constants_from_enum(**settings: Any) -> Callable[[Any], Any]:
  """Works like gin.constants_from_enum."""
  return lambda enum: _register(lambda: gin.constants_from_enum(**settings)(enum))


def external_configurable(fn_or_cls: Any, **settings: Any) -> Any:
  """Works like gin.external_configurable."""
  return _register(lambda: gin.external_configurable(fn_or_cls, **settings))


def _register(register):
  error = None
  with _lock, gin.unlock_config():
    try:
      return register()
    except Exception as caught:
      # gin.unlock_config does not lock again if an exception leaves its block: raise it after the
      # block.
      error = caught
  raise error
