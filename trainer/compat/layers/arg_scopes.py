"""arg_scope: default arguments of functions, inside a scope."""

import contextlib
import contextvars
import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trainer.internals import patches

# Function → dict of argument → value. A context variable, because each replica traces on its own
# thread.
_scope: contextvars.ContextVar[Mapping[str, dict[str, Any]]] = contextvars.ContextVar(
  "compat_arg_scope", default=types.MappingProxyType({})
)
_decorated: dict[str, Callable] = {}


def arg_scope_func_key(function: Callable) -> str:
  """Returns the key of a function in the scopes that arg_scope returns."""
  return getattr(function, "_key_op", str(function))


def add_arg_scope(function: Callable) -> Callable:
  """Decorates a function so that arg_scope can set its defaults."""
  key = f"{function.__module__}.{function.__qualname__}"

  @functools.wraps(function)
  def with_defaults(*args: Any, **kwargs: Any) -> Any:
    return function(*args, **{**_scope.get().get(key, {}), **kwargs})

  with_defaults._key_op = key
  _decorated[key] = with_defaults
  return with_defaults


def has_arg_scope(function: Callable) -> bool:
  """Returns whether arg_scope can set defaults of a function."""
  return arg_scope_func_key(function) in _decorated


def current_arg_scope() -> dict[str, dict[str, Any]]:
  """Returns the open scope, which arg_scope accepts again."""
  return dict(_scope.get())


@contextlib.contextmanager
def arg_scope(
  list_ops_or_scope: Sequence[Callable] | Mapping[str, dict[str, Any]], **kwargs: Any
) -> Iterator[dict[str, dict[str, Any]]]:
  """Changes the functions' defaults, inside the context.

  Args:
    list_ops_or_scope: functions, or a scope that an earlier arg_scope returned.
    kwargs: the functions' defaults.

  Raises:
    ValueError: a function lacks the decorator add_arg_scope.
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
      key = arg_scope_func_key(function)
      scope[key] = {**scope.get(key, {}), **kwargs}
  with patches.set_context(_scope, scope):
    yield scope
