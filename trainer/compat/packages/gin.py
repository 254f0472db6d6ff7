"""`import gin.tf`: gin with the names from its time with TensorFlow.

As until gin 0.4, `whitelist` and `blacklist` mean `allowlist` and `denylist`.
"""

import functools
from collections.abc import Callable
from typing import Any

import gin

__all__ = ["configurable", "external_configurable"]

_OLD = {"whitelist": "allowlist", "blacklist": "denylist"}


def _with_old_arguments(function: Callable) -> Callable:
  @functools.wraps(function)
  def call(*args: Any, **kwargs: Any) -> Any:
    return function(*args, **{_OLD.get(name, name): value for name, value in kwargs.items()})

  return call


configurable = _with_old_arguments(gin.configurable)
external_configurable = _with_old_arguments(gin.external_configurable)
