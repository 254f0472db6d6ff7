"""Finds the gin binding that sets the learning rate or the batch size of a run."""

from collections.abc import Mapping
from typing import Any

from trainer import experiment
from trainer.config import gin_internals

# Functions' names for a learning rate, or for the highest one of a schedule.
_WARM = "warmup_target"
_NAMES = ("learning_rate", "initial_learning_rate", _WARM, "base_learning_rate", "lr")
# `schedules.piecewise`'s name for its rates.
_PIECES = "learning_rates"


def learning_rate(value: float, params: Mapping[str, Any] | None) -> list[str]:
  """Returns the gin bindings that would set a training's learning rate.

  Call it after the trace of the training: only then gin knows the calls.

  Returns:
    Bindings as text; each sets one number; [] if no binding sets a learning rate.
  """
  found = []
  for (scope, selector), values in gin_internals.operative_bindings().items():
    found += [_binding(scope, selector, name, value) for name in _highest(values)]
    if _PIECES in values:
      found.append(_scaled(scope, selector, values[_PIECES], value))
  found += [
    f"run.params = {{..., {name!r}: {value:.2g}}}" for name in _NAMES if name in (params or {})
  ]
  return list(dict.fromkeys(found))


def batch_size(value: int, asked: experiment.Experiment, replicas: int) -> str:
  """Returns the gin binding that sets the batch size of the training.

  Args:
    value: the global size.
    asked: the run, with a global size or a size per core.
    replicas: of the device.
  """
  if asked.train_per_core_batch_size is not None:
    return f"run.train_per_core_batch_size = {value // replicas}"
  return f"run.train_batch_size = {value}"


def _highest(values):
  """Returns the arguments of a function that set a learning rate, its highest one."""
  names = [name for name in _NAMES if _is_number(values.get(name))]
  # Keras's CosineDecay begins its warm-up at initial_learning_rate.
  return [_WARM] if _WARM in names else names


def _is_number(value):
  if name := _macro(value):
    value = gin_internals.bindings().get((name, "gin.macro"), {}).get("value")
  return isinstance(value, int | float) and not isinstance(value, bool)


def _macro(value):
  """Returns the name of the macro that a value refers to, or ""."""
  if isinstance(value, gin_internals.ConfigurableReference) and gin_internals.is_macro(value):
    return "/".join(value.scopes)
  return ""


def _binding(scope, selector, name, value):
  # A call in a scope may take its value from a binding without one.
  bound_in = [
    each for each in (scope, "") if name in gin_internals.bindings().get((each, selector), {})
  ]
  scope = bound_in[0] if bound_in else scope
  if macro := _macro(gin_internals.bindings().get((scope, selector), {}).get(name)):
    return f"{macro} = {value:.2g}"
  return f"{_prefix(scope)}{selector}.{name} = {value:.2g}"


def _scaled(scope, selector, rates, value):
  """Returns the binding of a list of rates, with the highest one at a value."""
  scaled = ", ".join(f"{value * rate / max(rates):.2g}" for rate in rates)
  return f"{_prefix(scope)}{selector}.{_PIECES} = [{scaled}]"


def _prefix(scope):
  return f"{scope}/" if scope else ""
