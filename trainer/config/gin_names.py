"""Registers names with gin as gin does, but also when the configuration is locked already.

    @gin_names.configurable(module="trainer")
    class BestExporter: ...

`trainer`'s names load at first use, which in a program that parses its gin files first is after
`gin.parse_config_files_and_bindings` has locked the configuration. gin then takes no registration.
What it guards against cannot happen here: a binding of a name that was not registered yet would
have been an error while it parsed.
"""

import threading
from collections.abc import Callable
from typing import Any

import gin

_lock = threading.Lock()  # the flag that gin.unlock_config sets and puts back is the process's


def configurable(name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
  """gin.configurable with these arguments."""
  return lambda fn_or_cls: _register(lambda: gin.configurable(name, **settings)(fn_or_cls))


def constants_from_enum(**settings: Any) -> Callable[[Any], Any]:
  """gin.constants_from_enum with these arguments."""
  return lambda enum: _register(lambda: gin.constants_from_enum(**settings)(enum))


def external_configurable(fn_or_cls: Any, **settings: Any) -> Any:
  """gin.external_configurable with these arguments."""
  return _register(lambda: gin.external_configurable(fn_or_cls, **settings))


def _register(register):
  error = None
  with _lock, gin.unlock_config():
    try:
      return register()
    except Exception as caught:  # which inside unlock_config would leave the configuration unlocked
      error = caught
  raise error
