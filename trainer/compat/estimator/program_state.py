"""State that a model_fn keeps outside of itself, such as `self.loss = loss`, as after one call.

TensorFlow 1 called a model_fn once for each training, evaluation or prediction. Octet traces it for
each core, and again for another shape, and reuses the traces in the next evaluation. So

- each replica's call starts from the same state as the first replica's, and sees its own changes:
  replicas take turns in the middle of a call, where they combine gradients;
- afterwards the first replica's changes stay, because hooks fetch them;
- a repeated trace starts from the same state as the first;
- if the program has changed something since, such as `model.rate = 0.01` between two trainings,
  Octet traces the model_fn again.

The state is everything reachable from the model_fn: a method's object, a partial's arguments,
variables of enclosing functions; and inside those, objects of the program's own classes, lists,
dicts and sets.
"""

import contextlib
import contextvars
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from trainer.internals import patches
from trainer.tracing import store_run

v1 = tf.compat.v1

# Skip objects with a base class from these packages: they keep their state.
_LIBRARIES = {"tensorflow", "keras", "tf_keras", "numpy", "trainer", "absl", "gin"}
_LIBRARIES |= sys.stdlib_module_names - {"builtins", "types", "argparse", "abc", "typing"}
# Except these base classes: a model_fn may give a hook its loss.
_HOOKS = (v1.train.SessionRunHook, v1.train.CheckpointSaverListener)

# A longer list is the program's data, which a model_fn does not change. The number of objects has a
# limit too: looking at more would take longer than the trace.
_MOST = 1000
_MOST_OBJECTS = 10_000

_PLAIN = (bool, int, float, str, bytes, type(None))

_current: contextvars.ContextVar["ProgramState | None"] = contextvars.ContextVar(
  "compat_program_state", default=None
)


class _Snapshot:
  """The contents of the reachable objects, one by one.

  Args:
    root: the model_fn.
  """

  def __init__(self, root: Any):
    self.entries: dict[int, tuple[Any, Any]] = {}  # identity → (object, its content)
    waiting = [root]
    while waiting and len(self.entries) < _MOST_OBJECTS:
      one = waiting.pop()
      if id(one) not in self.entries and (content := _content(one)) is not None:
        self.entries[id(one)] = one, content
        if isinstance(one, _HOOKS):  # the hook owns what it records during a step
          continue
        parts = content.values() if isinstance(content, dict) else content
        waiting += [part for part in parts if type(part) not in _PLAIN]
        if _kind(one) and hasattr(one, "__dict__"):  # a subclass has attributes beside its items
          waiting.append(vars(one))

  def restore(self) -> None:
    """Restores the contents."""
    for one, content in self.entries.values():
      _write(one, content)


class ProgramState:
  """The state of one Estimator's model_fn.

  Args:
    model_fn: the model_fn.
  """

  def __init__(self, model_fn: Callable):
    self._model_fn = model_fn
    self._first: dict[str, _Snapshot] = {}  # mode → snapshot around its newest trace
    self._last: dict[str, _Snapshot] = {}
    # (identity of an object, key) → the object, for keys that a model_fn has set.
    self._changed: dict[tuple[int, Any], Any] = {}
    self._begun: set[str] = set()  # modes with a trace in their current call
    self._before: _Snapshot | None = None  # of the first replica, in this trace
    self._after: _Snapshot | None = None

  def begin(self, mode: str) -> bool:
    """Records that the program calls train, evaluate or predict.

    Returns:
      Whether the program changed something since the model_fn's last trace for this mode.
    """
    self._begun.discard(mode)
    first = self._first.get(mode)
    return first is not None and self._differs(first)

  @contextlib.contextmanager
  def call(self, mode: str) -> Iterator[None]:
    """Returns a context for a replica's call of the model_fn."""
    replica = store_run.replica_number()
    if replica is None:
      with self._as_first(mode):
        yield
    elif replica == 0:
      with patches.set_context(_current, self), self._as_first(mode):
        self._before = _Snapshot(self._model_fn)
        yield
        self._after = _Snapshot(self._model_fn)
    else:
      self._before.restore()
      with patches.set_context(_current, self):
        yield
      self._after.restore()

  @contextlib.contextmanager
  def _as_first(self, mode: str) -> Iterator[None]:
    if mode in self._begun:
      self._take_back(self._first[mode], self._last[mode])
    else:
      self._first[mode] = _Snapshot(self._model_fn)
      self._begun.add(mode)
    yield
    self._last[mode] = _Snapshot(self._model_fn)
    for one, before, after in _pairs(self._first[mode], self._last[mode]):
      self._changed |= {(id(one), key): one for key in _changed_keys(before, after)}

  def _take_back(self, first: _Snapshot, last: _Snapshot) -> None:
    """Undoes a trace's changes, but keeps later changes by others."""
    for one, before, after in _pairs(first, last):
      now = _content(one)
      if isinstance(after, dict):
        for key in _changed_keys(before, after):
          if key in now and key in after and now[key] is after[key]:
            del now[key]
            now |= {key: before[key]} if key in before else {}
      elif isinstance(after, set):
        now = (now - (after - before)) | (before - after)
      elif len(now) >= len(after) and all(map(_is, now, after)):
        now = before + now[len(after) :]
      _write(one, now)

  def _differs(self, first: _Snapshot) -> bool:
    for number, (one, before) in first.entries.items():
      now = None if isinstance(one, _HOOKS) else _content(one)
      keys = [] if now is None else _changed_keys(before, now)
      if any((number, key) not in self._changed for key in keys):
        return True
    return False

  def in_turn(self, other: Callable) -> Any:
    """Calls a function that lets other cores continue; afterwards this core sees its own state."""
    own = _Snapshot(self._model_fn)
    try:
      return other()
    finally:
      own.restore()


@patches.replaces(tf.distribute.ReplicaContext, "merge_call", inside=_current)
def _merge_call(original, *args, **kwargs):
  return _current.get().in_turn(functools.partial(original, *args, **kwargs))


def _content(one: Any) -> Any:
  """Returns a copy of an object's content as a dict, list or set; None for other kinds."""
  if isinstance(one, types.CellType):
    try:
      return {"cell_contents": one.cell_contents}
    except ValueError:  # an empty cell
      return {}
  if isinstance(one, types.MethodType):
    return {"__self__": one.__self__, "__func__": one.__func__}
  if isinstance(one, types.FunctionType):
    return dict(enumerate(one.__closure__ or ()))
  if isinstance(one, functools.partial):
    return {"func": one.func, "args": list(one.args), "keywords": one.keywords}
  bases = [each for each in type(one).__mro__ if each not in _HOOKS]
  roots = {each.__module__.partition(".")[0] for each in bases}
  if isinstance(one, type | types.ModuleType) or roots & _LIBRARIES:
    return None
  if (kind := _kind(one)) is not None:
    return kind.copy(one) if len(one) <= _MOST else None
  # Other replicas run the model_fn during `other`, and write to the same objects.
  return dict(vars(one)) if isinstance(getattr(one, "__dict__", None), dict) else None


def _kind(one: Any) -> Any:
  """Returns dict, list or set for an object of that class or of a program's subclass, else None."""
  return next((kind for kind in (dict, list, set) if isinstance(one, kind)), None)


def _write(one: Any, content: Any) -> None:
  if isinstance(one, types.CellType):
    if content:
      one.cell_contents = content["cell_contents"]
  elif (kind := _kind(one)) is not None:
    kind.clear(one)  # a subclass may forbid it, or change what it gets
    (list.extend if kind is list else kind.update)(one, content)
  elif not isinstance(one, types.MethodType | types.FunctionType | functools.partial):
    vars(one).clear()
    vars(one).update(content)


def _pairs(first: _Snapshot, last: _Snapshot) -> Iterator[tuple[Any, Any, Any]]:
  """Yields (object, content before, content after) for the objects in both snapshots."""
  for key, (one, before) in first.entries.items():
    if key in last.entries:
      yield one, before, last.entries[key][1]


def _changed_keys(before: Any, after: Any) -> list[Any]:
  """Returns the keys with different values; for a list or a set, [None] if it differs."""
  if isinstance(before, dict):
    keys = {**before, **after}
    missing = object()
    return [key for key in keys if not _is(before.get(key, missing), after.get(key, missing))]
  if isinstance(before, set):
    return [] if before == after else [None]
  return [] if len(before) == len(after) and all(map(_is, before, after)) else [None]


def _is(one: Any, other: Any) -> bool:
  return one is other or (type(one) is type(other) and isinstance(one, _PLAIN) and one == other)
