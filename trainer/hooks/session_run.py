"""Hooks of TPUEstimator programs: what of tf.compat.v1.train.SessionRunHook has a meaning without a
session.

| SessionRunHook              | called                            | with                         |
|-----------------------------|-----------------------------------------------|-------------------------------------------------------------------|
| begin, after_create_session | before the first loop             | None for session, coord      |
| before_run, after_run       | before and after each device loop | names of values as fetches   |
| end                         | after the last loop               | None for session             |

`run_context.request_stop()` ends the training.
"""

import tensorflow as tf

from trainer import errors, spec

v1 = tf.compat.v1


class SessionRunHookAdapter:
  """A SessionRunHook as a hook of `trainer.hooks`."""

  def __init__(self, hook):
    self._hook = hook
    self._context = self._fetches = None

  def begin(self, estimator):
    self._hook.begin()
    self._hook.after_create_session(None, None)
    self._before_run()

  def __call__(self, step, metrics, estimator):
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
    self._before_run()
    return False

  def end(self, step, estimator):
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


def adapt(hooks, where):
  """The hooks as hooks of `trainer.hooks`; SettingError for one that is none."""
  result = []
  for hook in hooks or []:
    if isinstance(hook, v1.train.SessionRunHook):
      hook = SessionRunHookAdapter(hook)
    if not callable(hook):
      raise errors.SettingError(
        f"{where}: a hook must be callable as hook(step, metrics, estimator); got {hook!r}."
      )
    result.append(hook)
  return result
