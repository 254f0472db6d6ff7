"""The metrics in the result of an evaluation: all numbers, or the metric of a setting."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trainer import errors


def scalars(result: Mapping[str, Any]) -> dict[str, float]:
  """Returns the metrics in an evaluation's result that are numbers, not arrays."""
  # An Estimator of trainer.compat returns numpy scalars, and JSON takes none.
  plain = {
    name: value.item() if isinstance(value, np.generic) else value for name, value in result.items()
  }
  return {name: value for name, value in plain.items() if isinstance(value, int | float)}


def scalar(result: Mapping[str, Any], metric: str, setting: str) -> float:
  """Returns the value of a metric in the result of an evaluation.

  Args:
    result: name → value.
    metric: name of the metric.
    setting: gin name of the setting that names the metric, for the error message.

  Raises:
    SettingError: there is no such metric, or it is not a scalar.
  """
  found = scalars(result)
  require(metric, found, setting)
  return found[metric]


def require(metric: str, names: Iterable[str], setting: str) -> None:
  """Raises SettingError unless a metric is among the names; see `scalar`."""
  if metric not in names:
    raise errors.SettingError(
      f"{setting} is {metric!r}; the evaluation gives "
      f"{', '.join(sorted(set(names) - {'global_step'}))}."
    )
