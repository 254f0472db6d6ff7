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

import keras
import tensorflow as tf

from trainer import errors, spec
from trainer.hooks.estimator_protocol import Estimator

v1 = tf.compat.v1


class SessionRunHookAdapter:
  """A hook of `trainer.hooks` that calls a SessionRunHook.

  Args:
    hook: a tf.compat.v1.train.SessionRunHook.
    session: the hook's stand-in for a session.
  """

  def __init__(self, hook: Any, session: Any = None) -> None:
    self.hook = hook
    self.session = session
    self.fetches: Any = None  # The hook's requests to the next loop.
    # That of the before_run that no after_run has followed, or None.
    self._context: Any = None

  def begin(self, estimator: Estimator) -> None:
    """Calls begin and after_create_session."""
    self.hook.begin()
    self.hook.after_create_session(self.session, None)

  def before_loop(self) -> None:
    """Calls before_run, unless the hook still waits for its last values."""
    if self._context is None:
      args = v1.train.SessionRunArgs(None)
      self._context = v1.train.SessionRunContext(original_args=args, session=self.session)
      self.before_run(self._context)

  def before_run(self, context: Any) -> Any:
    """Calls before_run of the hook, and returns its request: SessionRunArgs or None."""
    asked = self.hook.before_run(context)
    self.fetches = None if asked is None else asked.fetches
    return asked

  def __call__(self, step: int, metrics: Mapping[str, float], estimator: Estimator) -> bool:
    """Calls after_run with the values that before_run asked for.

    Returns:
      Whether the hook asked for the end of the training.

    Raises:
      SettingError: the hook asked for a value that does not exist.
    """
    self.before_loop()  # An evaluation calls hooks at its end only.
    known = dict(metrics, global_step=step)
    results = (
      None
      if self.fetches is None
      else tf.nest.map_structure(lambda fetch: self.value(fetch, known), self.fetches)
    )
    values = v1.train.SessionRunValues(results=results, options=None, run_metadata=None)
    self.hook.after_run(self._context, values)
    stops, self._context = self._context.stop_requested, None
    return stops

  def end(self, step: int, estimator: Estimator) -> None:
    """Calls end."""
    self.hook.end(self.session)

  def value(self, fetch: Any, known: Mapping[str, Any]) -> Any:
    """Returns the value of a request of the hook.

    Args:
      fetch: the request.
      known: name → value, of the loop.
    """
    name = fetch.removesuffix(":0") if isinstance(fetch, str) else ""
    if name not in known:
      raise errors.SettingError(
        f"The hook {spec.name_of(self.hook)} asks for {fetch!r}; without a session there is "
        f"{', '.join(sorted(known))}, by name. To log a tensor, call tf.summary.scalar in the "
        "model_fn."
      )
    return known[name]


def adapt(hooks: Sequence[Any] | None, where: str) -> list[Callable[..., Any]]:
  """Wraps the SessionRunHooks among hooks; returns the others unchanged.

  Args:
    hooks: of both kinds.
    where: the argument or setting with the hooks, for the error message.

  Raises:
    SettingError: an item is not a hook.
  """
  result = []
  for hook in hooks or []:
    if isinstance(hook, type):
      raise errors.SettingError(
        f"{where} has the class {hook.__name__}, not a hook: call it, as in @{hook.__name__}() in "
        "gin."
      )
    if isinstance(hook, keras.callbacks.Callback):
      raise errors.SettingError(
        f"{where}: {type(hook).__name__} is a callback of Keras's fit, which Octet does not call: "
        "docs/for_keras_users.md names what takes its place, such as trainer.EarlyStopping."
      )
    if isinstance(hook, v1.train.SessionRunHook):
      hook = SessionRunHookAdapter(hook)
    if not callable(hook):
      raise errors.SettingError(
        f"{where}: a hook must be callable as hook(step, metrics, estimator); got {hook!r}."
      )
    result.append(hook)
  return result
