"""Copies Keras's metrics and optimizers by their configuration.

A step makes its own metrics and optimizers, so a given object is a pattern. A class whose
`get_config` lacks an argument of its `__init__` would give a copy with the argument's default.
"""

import inspect
from typing import Any

import keras

from trainer import errors
from trainer.internals import keras_internals

_OF_OPTIMIZERS = (
  ", or give a function that makes the optimizer: optimizer=lambda: keras.optimizers.Adam(...)"
)


def metric(given: keras.metrics.Metric) -> keras.metrics.Metric:
  """Returns a new metric like a given one.

  Raises:
    SettingError: the class's get_config lacks an argument.
  """
  return _copy(given, given.get_config(), "")


def config(given: keras.optimizers.Optimizer) -> dict[str, Any]:
  """Returns the configuration of an optimizer.

  Raises:
    SettingError: its learning-rate schedule has no configuration.
  """
  try:
    return given.get_config()
  except NotImplementedError as error:
    raise _refusal(given, error, _OF_OPTIMIZERS) from error


def optimizer(
  given: keras.optimizers.Optimizer, config: dict[str, Any]
) -> keras.optimizers.Optimizer:
  """Returns a new optimizer like a given one.

  Args:
    given: the optimizer.
    config: the result of its get_config. The caller asks for it outside of a trace, since it reads
      the value of the learning rate.

  Raises:
    SettingError: the class's get_config lacks an argument, or the optimizer excludes variables
      from weight decay by themselves.
  """
  copy = _copy(given, config, _OF_OPTIMIZERS)
  if not keras_internals.copy_decay_exclusions(given, copy):
    raise errors.SettingError(
      f"model_fn_from_keras: {type(given).__name__} excludes variables from weight decay by "
      "var_list, and the model gets new variables: give their names, "
      'exclude_from_weight_decay(var_names=["bias"]).'
    )
  return copy


def _copy(given, config, otherwise):
  try:
    copy = type(given).from_config(config)
  except TypeError as error:
    raise _refusal(given, error, otherwise) from error
  copied = _arguments(copy)
  lost = [name for name, value in _arguments(given).items() if copied[name] != value]
  if lost:
    raise _refusal(given, f"the copy has another {' and '.join(lost)}", otherwise)
  return copy


def _refusal(given, reason, otherwise):
  reason = str(reason).removesuffix(".")
  return errors.SettingError(
    f"model_fn_from_keras copies {type(given).__name__} by get_config and from_config: {reason}; "
    f"let its get_config return all arguments of __init__{otherwise}."
  )


def _arguments(made):
  """Returns the arguments of an object's __init__ that it keeps: name → a number, text or bool."""
  kept = vars(made)
  found = {
    name: kept.get(name, kept.get(f"_{name}"))
    for name in inspect.signature(type(made).__init__).parameters
    if name not in ("name", "dtype")  # A metric on the host counts in float64.
  }
  return {
    name: value if isinstance(value, bool | int | float | str | None) else None
    for name, value in found.items()
  }
