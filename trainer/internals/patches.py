"""Functions of TensorFlow and Keras that are replaced, once in a process.

    _is_training = contextvars.ContextVar("is_training", default=False)

    @patches.replaces(SomeClass, "method")
    def _method(original, self, value):
      return original(self, _changed(value) if _is_training.get() else value)

A replacement that came and went with each trace would be undone in the wrong order by two traces
that overlap in two threads. One that stays has nothing to undo: it asks a context variable, and
outside of our own traces it calls the original. All of them are put in place when the first context
variable is set; a program that only imports this package has TensorFlow and Keras as they were.
"""

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

_lock = threading.RLock()
_waiting: list[tuple[Any, str, Callable]] = []
_installed: list[tuple[Any, str, Callable]] = []


def replaces(owner: Any, name: str) -> Callable[[Callable], Callable]:
  """Makes a decorator for what is to take the place of a function from the next `install` on.

  The decorated function is called with the original, then with the arguments of the call.

  Args:
    owner: the class or the module that has the function, or the class that has a property.
    name: the function's or the property's name there.
  """

  def register(replacement: Callable) -> Callable:
    with _lock:
      _waiting.append((owner, name, replacement))
    return replacement

  return register


def install() -> None:
  """Puts all replacements in place, each once; cheap where that is done already."""
  if not _waiting:
    return
  with _lock:
    while _waiting:
      _replace(*_waiting[0])
      _installed.append(_waiting.pop(0))


def installed() -> list[tuple[Any, str, Callable]]:
  """(owner, name, replacement) of all that are in place."""
  return list(_installed)


def _replace(owner, name, replacement):
  original = getattr(owner, name)
  if isinstance(original, property):
    setattr(owner, name, property(_called_with(original.fget, replacement)))
  else:
    setattr(owner, name, _called_with(original, replacement))


def _called_with(original, replacement):
  # It also gets the original's module, by which AutoGraph knows functions that it leaves alone.
  @functools.wraps(original)
  def replaced(*args, **kwargs):
    return replacement(original, *args, **kwargs)

  return replaced


@contextlib.contextmanager
def set_context(variable: contextvars.ContextVar, value: Any) -> Iterator[None]:
  """Inside, a context variable has a value; the replacements, which may ask it, are in place."""
  install()
  token = variable.set(value)
  try:
    yield
  finally:
    variable.reset(token)


def keep_context(fn: Callable) -> Callable:
  """A function like fn that sees the context variables of this thread in every thread.

  A strategy traces each replica in a thread of its own, which begins with no context.
  """
  here = contextvars.copy_context()

  @functools.wraps(fn)
  def call(*args, **kwargs):
    return here.copy().run(fn, *args, **kwargs)  # replicas are inside at the same time

  return call
