"""arg_scope: default arguments of functions, inside a scope."""

import contextlib
import contextvars
import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trainer.internals import patches

# By function, dict of argument → value. Each replica is traced on a thread of its own.
_scope: contextvars.ContextVar[Mapping[str, dict[str, Any]]] = contextvars.ContextVar(
  "compat_arg_scope", default=types.MappingProxyType({})
)
_decorated: dict[str, Callable] = {}


def _key(function: Callable) -> str:
  return getattr(function, "_key_op", str(function))


def add_arg_scope(function: Callable) -> Callable:
  """A decorator: arg_scope sets defaults of the function."""
  key = f"{function.__module__}.{function.__qualname__}"

  @functools.wraps(function)
  def with_defaults(*args: Any, **kwargs: Any) -> Any:
    return function(*args, **{**_scope.get().get(key, {}), **kwargs})

  with_defaults._key_op = key
  _decorated[key] = with_defaults
  return with_defaults


def has_arg_scope(function: Callable) -> bool:
  """Whether arg_scope can set defaults of a function."""
  return _key(function) in _decorated


def current_arg_scope() -> dict[str, dict[str, Any]]:
  """The scope that is open, which arg_scope takes again."""
  return dict(_scope.get())


@contextlib.contextmanager
def arg_scope(
  list_ops_or_scope: Sequence[Callable] | Mapping[str, dict[str, Any]], **kwargs: Any
) -> Iterator[dict[str, dict[str, Any]]]:
  """Inside, the functions have other defaults.

  Args:
    list_ops_or_scope: functions, or a scope that an arg_scope gave before.
    kwargs: the defaults of the functions.

  Raises:
    ValueError: a function is not decorated with add_arg_scope.
  """
  if isinstance(list_ops_or_scope, Mapping):
    if kwargs:
      raise ValueError(
        "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty."
      )
    scope = dict(list_ops_or_scope)
  else:
    scope = current_arg_scope()
    for function in list_ops_or_scope:
      if not has_arg_scope(function):
        raise ValueError(f"{function} is not decorated with @add_arg_scope")
      scope[_key(function)] = {**scope.get(_key(function), {}), **kwargs}
  with patches.set_context(_scope, scope):
    yield scope
