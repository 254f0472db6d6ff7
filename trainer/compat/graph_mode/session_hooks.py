"""SessionRunHooks as hooks of Octet.

| SessionRunHook                 | called                                                          |
|--------------------------------|-----------------------------------------------------------------|
| begin                          | while the step is traced, in the graph of the model_fn          |
| after_create_session           | before the first loop                                           |
| before_run, after_run          | before and after each step; on a TPU each loop. After each      |
|                                | batch of an evaluation                                          |
| end                            | after the last loop                                             |

Hooks get a `sessions.Session`, which runs operations of the model_fn and of the hook's `begin`. A
traced step returns only the tensors of its trace. So `attach` calls before_run of a copy of the
hook during the trace, to learn its fetches.
"""

import contextlib
import copy
from typing import Any

import tensorflow as tf
from absl import logging

from trainer import errors, spec
from trainer.compat.graph_mode import habits, sessions
from trainer.hooks import session_run

v1 = tf.compat.v1


class NativeHook(v1.train.SessionRunHook):
  """Base class of tf.train's hooks in this package. Octet calls them as its own hooks.

  `start` and `stop` are the `begin` and `end` of Octet's hooks: SessionRunHook has methods with
  those names and other arguments. A program may subclass such a hook. If the subclass defines
  methods of SessionRunHook, a separate `_Foreign` calls them.
  """

  _global_step_tensor: Any = None

  def begin(self) -> None:
    self._global_step_tensor = v1.train.get_global_step()

  def attach(self, step: Any) -> None:
    """Asks the step, a `fetches.Step`, for tensors."""

  def start(self, estimator: Any) -> None:
    """Called before the first loop."""

  def stop(self, step: int, estimator: Any) -> None:
    """Called after the last loop."""

  def next_step(self, step: int) -> int | None:
    """Returns the next step after which the loop must call the hook, or None."""
    return None

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    raise NotImplementedError


class _Native:
  """Hides a NativeHook's base class SessionRunHook from Octet's loop, which would adapt it."""

  def __init__(self, hook: NativeHook):
    self.hook = hook
    self.attach = hook.attach
    self.next_step = hook.next_step
    self.__qualname__ = type(hook).__qualname__

  def begin(self, estimator: Any) -> None:
    self.hook.start(estimator)

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    return self.hook(step, metrics, estimator)

  def end(self, step: int, estimator: Any) -> None:
    self.hook.stop(step, estimator)


class _Foreign(session_run.SessionRunHookAdapter):
  """Calls a program's SessionRunHook from Octet's loop.

  Args:
    hook: the SessionRunHook.
    every: the number of steps between two calls; None: one call after each loop.
  """

  def __init__(self, hook: Any, every: int | None):
    super().__init__(hook, sessions.Session())
    self._fetched: list[tuple[Any, Any]] = []  # (fetch, fetches.Fetched)
    self._global_step: Any = None
    self._is_attached = False
    self._sees_batches = False
    self.__qualname__ = type(hook).__qualname__
    self._every = every
    # The loop may stop before the next call is due, at another hook's step. Then `__call__` keeps
    # the metrics, and `end` makes the call if no later step does.
    self._due = 0
    self._not_told: dict[str, float] | None = None
    if every is not None:
      self.next_step = self._next_step

  def attach(self, step: Any) -> None:
    """Calls begin; then asks the step for tensors, if there is one: no prediction gives any."""
    self._is_attached = True
    self.session.attach()
    self._global_step = v1.train.get_global_step()
    # As TensorFlow: begin comes before the first before_run, and may add operations to the graph
    # that before_run fetches.
    self.hook.begin()
    self._fetched = (
      []
      if step is None
      else [
        (fetch, step.fetch(fetch, self.hook))
        for fetch in _leaves(self._asked_early())
        # The loop knows the global step without a fetch.
        if not self._is_global_step(fetch)
      ]
    )

  def begin(self, estimator: Any) -> None:
    # `attach` runs while a step is traced. A hook without a trace has not begun.
    if not self._is_attached:
      self.hook.begin()
    with self._in_graph():
      self.hook.after_create_session(self.session, None)

  def see_batches(self) -> list[Any]:
    """Makes `batch` call the hook instead of the evaluation's end. Returns the hook's fetches."""
    self._sees_batches = True
    return [fetched for _, fetched in self._fetched]

  def batch(self, step: int, *values: Any) -> None:
    """Calls the hook after a batch of an evaluation."""
    # An operation has no value: numpy_function passes values for tensors only.
    with_values = [fetched for _, fetched in self._fetched if fetched.tensor is not None]
    for fetched, value in zip(with_values, values, strict=True):
      fetched.give(value)
    self._tell(step, {})

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    # In an evaluation, metric_fn has called the hook for each batch already.
    if self._sees_batches:
      return False
    if self._every is not None and step < self._due:
      self._not_told = metrics
      return False
    self._not_told = None
    return self._tell(step, metrics)

  def _tell(self, step: int, metrics: dict[str, float]) -> bool:
    try:
      with self._in_graph():
        return super().__call__(step, metrics, None)
    except tf.errors.OutOfRangeError:
      # after_run ran an operation that takes a batch, and no batch was left.
      return True

  def _next_step(self, step: int) -> int:
    # Octet asks before each loop, also between two calls: move on only once the step is reached.
    if step >= self._due:
      self._due = step + self._every
    return self._due

  def end(self, step: int, estimator: Any) -> None:
    # The training ends between two calls: the hook still gets the last step.
    if self._not_told is not None:
      self._tell(step, self._not_told)
    with self._in_graph():
      super().end(step, estimator)

  def _in_graph(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which placeholders can be keys of a feed_dict, if there is a graph."""
    graph = self.session.graph
    return contextlib.nullcontext() if graph is None else habits.enable(graph)

  def before_run(self, context: Any) -> Any:
    """Calls before_run of the hook.

    Raises:
      SettingError: the hook feeds the step, or fetches an operation that changes variables in some
        steps only. A traced step can do neither.
    """
    try:
      with self._in_graph():
        asked = super().before_run(context)
    except tf.errors.OutOfRangeError as error:
      # before_run took the last batch. The step finds none, and ends the training.
      logging.info("%s ends the training: %s", spec.name_of(self.hook), error.message)
      return None
    who = f"The hook {spec.name_of(self.hook)}"
    if asked is not None and asked.feed_dict:
      raise errors.SettingError(
        f"{who} gives {list(asked.feed_dict)!r} values in before_run, but a step takes only its "
        "batch. Assign the values to a variable with run_context.session.run."[:500]
      )
    wanted = set(map(id, _leaves(self.fetches)))
    # TensorFlow ran an operation only in the steps that fetched it. A traced step has it in every
    # step: harmless for a read, wrong for an assignment.
    for fetch, fetched in self._fetched:
      if fetched.changes and id(fetch) not in wanted:
        raise errors.SettingError(
          f"{who} fetches {fetch!r}, which changes variables, in some steps and not in others, "
          "but each step would run it. Call run_context.session.run in the right steps "
          "instead."[:500]
        )
    return asked

  def _asked_early(self) -> Any:
    """Returns what the hook will fetch, from before_run of a copy of the hook.

    The hook itself must not count a call that TensorFlow does not make. No session exists yet: a
    hook whose before_run needs one fetches nothing.
    """
    context = v1.train.SessionRunContext(v1.train.SessionRunArgs(None), session=None)
    try:
      asked = copy.copy(self.hook).before_run(context)
    except Exception as error:  # the hook may raise any exception
      logging.debug("%s does not know its fetches yet: %r", spec.name_of(self.hook), error)
      return None
    return None if asked is None else asked.fetches

  def _is_global_step(self, fetch: Any) -> bool:
    if isinstance(fetch, str):
      return fetch.removesuffix(":0") == "global_step"
    return fetch is self._global_step

  def value(self, fetch: Any, known: dict[str, Any]) -> Any:
    if self._is_global_step(fetch):
      return known["global_step"]
    for asked, fetched in self._fetched:
      if asked is fetch or (isinstance(fetch, str) and isinstance(asked, str) and asked == fetch):
        return fetched.value()
    # A variable needs no fetch: its value exists between steps.
    if isinstance(fetch, tf.Variable):
      return fetch.numpy()
    if isinstance(fetch, str) and fetch.removesuffix(":0") in known:
      return known[fetch.removesuffix(":0")]
    raise errors.SettingError(
      f"The hook {spec.name_of(self.hook)} asks for {fetch!r}. It did not ask for it when "
      "Octet traced the step, and a step returns only the tensors that were asked for then."
    )


def _leaves(fetches: Any) -> list[Any]:
  return [] if fetches is None else tf.nest.flatten(fetches)


def adapt(hooks: Any, every: int | None = 1) -> list[Any]:
  """Makes hooks of Octet from hooks of any kind.

  Args:
    hooks: list of hooks, or None.
    every: the number of steps between two calls of a program's SessionRunHook; None: one call after
      each loop.
  """
  found = []
  for hook in hooks or []:
    if isinstance(hook, NativeHook):
      found.append(_Native(hook))
      if _has_own_methods(hook):
        found.append(_Foreign(hook, every))
    elif isinstance(hook, v1.train.SessionRunHook):
      found.append(_Foreign(hook, every))
    else:
      found.append(hook)
  return found


def _has_own_methods(hook: NativeHook) -> bool:
  """Whether the program's subclass of a NativeHook defines methods of SessionRunHook."""
  names = ("begin", "after_create_session", "before_run", "after_run", "end")
  return any(getattr(type(hook), name) is not getattr(NativeHook, name) for name in names)


def attach(hook: Any, step: Any) -> None:
  """Lets a hook ask for tensors of a step; without a step it may only use the graph."""
  if isinstance(hook, _Foreign) or (step is not None and isinstance(hook, _Native)):
    hook.attach(step)


def batch_watchers(hooks: list[Any]) -> list[Any]:
  """Returns the hooks to call after each batch of an evaluation."""
  return [hook for hook in hooks if isinstance(hook, _Foreign)]


def needs_trace(hooks: list[Any]) -> bool:
  """Returns whether one of the adapted hooks must see the trace of the step."""
  return any(
    isinstance(hook, _Foreign)
    or (isinstance(hook, _Native) and type(hook.hook).attach is not NativeHook.attach)
    for hook in hooks
  )
