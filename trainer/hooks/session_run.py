"""Runs a tf.compat.v1.train.SessionRunHook, as far as it makes sense without a session.

| SessionRunHook              | called                            | with                         |
|-----------------------------|-----------------------------------|------------------------------|
| begin, after_create_session | before the first loop             | None for session, coord      |
| before_run, after_run       | before and after each device loop | names of values as fetches   |
| end                         | after the last loop               | None for session             |

`run_context.request_stop()` ends the training.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors, spec

v1 = tf.compat.v1


class SessionRunHookAdapter:
  """A hook of `trainer.hooks` that calls a SessionRunHook.

  Args:
    hook: a tf.compat.v1.train.SessionRunHook.
  """

  def __init__(self, hook: Any) -> None:
    self._hook = hook
    self._context: Any = None
    self._fetches: Any = None

  def begin(self, estimator: Any) -> None:
    """Calls begin, after_create_session, and before_run for the first loop."""
    self._hook.begin()
    self._hook.after_create_session(None, None)
    self._before_run()

  def __call__(self, step: int, metrics: Mapping[str, float], estimator: Any) -> bool:
    """Calls after_run with the values that before_run asked for, then before_run.

    Returns:
      Whether the hook asked for the end of the training.

    Raises:
      SettingError: the hook asked for a value that does not exist.
    """
    known = dict(metrics, global_step=step)
    results = (
      None
      if self._fetches is None
      else tf.nest.map_structure(lambda fetch: self._value(fetch, known), self._fetches)
    )
    self._hook.after_run(
      self._context, v1.train.SessionRunValues(results=results, options=None, run_metadata=None)
    )
    if self._context.stop_requested:
      return True
    self._before_run()  # the next loop may begin at once, so its before_run is called now
    return False

  def end(self, step: int, estimator: Any) -> None:
    """Calls end."""
    self._hook.end(None)

  def _before_run(self):
    self._context = v1.train.SessionRunContext(
      original_args=v1.train.SessionRunArgs(None), session=None
    )
    asked = self._hook.before_run(self._context)
    self._fetches = None if asked is None else asked.fetches

  def _value(self, fetch, known):
    name = fetch.removesuffix(":0") if isinstance(fetch, str) else None
    if name not in known:
      raise errors.SettingError(
        f"The hook {spec.name_of(self._hook)} asks for {fetch!r}; without a session there is "
        f"{', '.join(sorted(known))}, by name. A tensor can be "
        "logged with tf.summary.scalar in the model_fn."
      )
    return known[name]


def adapt(hooks: Sequence[Any] | None, where: str) -> list[Callable[..., Any]]:
  """Wraps those hooks that are SessionRunHooks; returns the others as they are.

  Args:
    hooks: of both kinds.
    where: the argument or setting that has the hooks, for the error message.

  Raises:
    SettingError: one of them is not a hook.
  """
  result = []
  for hook in hooks or []:
    if isinstance(hook, type):
      raise errors.SettingError(
        f"{where} has the class {hook.__name__}, not a hook: call it, as in @{hook.__name__}() in "
        "gin."
      )
    if isinstance(hook, v1.train.SessionRunHook):
      hook = SessionRunHookAdapter(hook)
    if not callable(hook):
      raise errors.SettingError(
        f"{where}: a hook must be callable as hook(step, metrics, estimator); got {hook!r}."
      )
    result.append(hook)
  return result
