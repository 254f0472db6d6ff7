"""Replaces functions of TensorFlow and Keras, once per process.

    _is_training = contextvars.ContextVar("is_training", default=False)

    @patches.replaces(SomeClass, "method", inside=_is_training)
    def _method(original, self, value):
      return original(self, _changed(value))

Two traces can overlap in two threads. If each trace patched a function and restored it at its end,
the restores could run in the wrong order. A replacement therefore stays installed, and a context
variable selects it or the original: outside of Octet's own traces, the original.

Octet installs all replacements when it sets the first context variable. A program that only imports
this package keeps TensorFlow and Keras unchanged.
"""

import contextlib
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

_lock = threading.RLock()
_waiting: list[tuple[Any, str, Callable, contextvars.ContextVar | None]] = []
_installed: list[tuple[Any, str, Callable]] = []


def replaces(
  owner: Any, name: str, inside: contextvars.ContextVar | None = None
) -> Callable[[Callable], Callable]:
  """Decorates a replacement for a function; the next `install` puts it in place.

  The call is `replacement(original, *args, **kwargs)`.

  Args:
    owner: the class or module of the function, or the class of the property.
    name: the name of the function or property in the owner.
    inside: if this variable has no true value, calls go to the original. None: calls always go to
      the replacement, which decides itself.

  Returns:
    The decorator. It returns the decorated function unchanged.
  """

  def register(replacement: Callable) -> Callable:
    with _lock:
      _waiting.append((owner, name, replacement, inside))
    return replacement

  return register


def install() -> None:
  """Puts every waiting replacement in place, each once. Cheap if nothing waits."""
  if not _waiting:
    return
  with _lock:
    while _waiting:
      owner, name, replacement, inside = _waiting[0]
      _replace(owner, name, replacement, inside)
      _installed.append((owner, name, replacement))
      del _waiting[0]


def installed() -> list[tuple[Any, str, Callable]]:
  """Returns (owner, name, replacement) for every installed replacement."""
  return list(_installed)


def _replace(owner, name, replacement, inside):
  original = getattr(owner, name)
  if isinstance(original, property):
    setattr(owner, name, property(_called_with(original.fget, replacement, inside)))
  else:
    setattr(owner, name, _called_with(original, replacement, inside))


def _called_with(original, replacement, inside):
  # `wraps` also copies __module__. AutoGraph reads it to skip functions that it must not convert.
  @functools.wraps(original)
  def replaced(*args, **kwargs):
    if inside is not None and not inside.get():
      return original(*args, **kwargs)
    return replacement(original, *args, **kwargs)

  # Keras reads the arguments of an Operation's __init__ with getfullargspec, which ignores `wraps`.
  with contextlib.suppress(ValueError, TypeError):  # functions in C may have none
    replaced.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
  return replaced


@contextlib.contextmanager
def set_context(variable: contextvars.ContextVar, value: Any) -> Iterator[None]:
  """Sets a context variable while the context is open, and installs the replacements first.

  Args:
    variable: the variable; a replacement may read it.
    value: its value inside.
  """
  install()
  token = variable.set(value)
  try:
    yield
  finally:
    variable.reset(token)


def keep_context(fn: Callable) -> Callable:
  """Returns a function that runs fn with this thread's context variables, in any thread.

  A strategy traces each replica in its own thread. A new thread starts with an empty context.
  """
  here = contextvars.copy_context()

  @functools.wraps(fn)
  def call(*args, **kwargs):
    # Only one thread at a time can be in a context, and replicas run fn at the same time: copy it.
    return here.copy().run(fn, *args, **kwargs)

  return call
