"""The hooks of one call of an Estimator, called in their order."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainer import spec
from trainer.hooks.estimator_protocol import Estimator


class HookList:
  """Calls hooks, each as a stage that a watchdog knows by the hook's name.

  Args:
    hooks: list of hooks, see `trainer.hooks`.
    estimator: the Estimator that the hooks get.
    stage: function of a sentence that makes a context manager, around each call of a hook.
    bring_to_host: a function to call before a hook that may read variables, see `trainer.hooks`.
  """

  def __init__(
    self,
    hooks: Sequence[Callable],
    estimator: Estimator,
    stage: Callable[[str], Any] = lambda name: contextlib.nullcontext(),
    bring_to_host: Callable[[], None] = lambda: None,
  ) -> None:
    self._hooks = list(hooks)
    self._estimator = estimator
    self._stage = stage
    self._bring_to_host = bring_to_host

  @property
  def next_steps(self) -> tuple[Callable[[int], int | None], ...]:
    """The hooks' functions from a step to the next step that they need."""
    return tuple(hook.next_step for hook in self._hooks if hasattr(hook, "next_step"))

  def begin(self) -> bool:
    """Calls each hook's `begin`, if it has one; returns whether a hook stops the training."""
    return self._call_each("begin", self._estimator)

  def before_loop(self) -> None:
    """Calls each hook's `before_loop`, if it has one."""
    self._call_each("before_loop")

  def call(self, step: int, metrics: Mapping[str, Any]) -> bool:
    """Calls all hooks; returns whether a hook stops the training.

    Args:
      step: the global step.
      metrics: dict of name → value.
    """
    return self._call_each("__call__", step, metrics, self._estimator)

  def end(self, step: int) -> None:
    """Calls each hook's `end`, if it has one."""
    self._call_each("end", step, self._estimator)

  def finished(self) -> None:
    """Calls each hook's `finished`, if it has one."""
    self._call_each("finished", self._estimator)

  def failed(self, error: BaseException) -> None:
    """Calls each hook's `failed`, if it has one."""
    self._call_each("failed", error, self._estimator)

  def _call_each(self, method, *arguments):
    stop = False
    for hook in self._hooks:  # Ask each hook, whatever the others answer.
      if hasattr(hook, method):
        if getattr(hook, "reads_variables", True):
          self._bring_to_host()
        with self._stage(f"hook {spec.name_of(hook)}"):
          stop = bool(getattr(hook, method)(*arguments)) or stop
    return stop
