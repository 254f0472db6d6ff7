"""Marks tests that take longer than the gate has time for.

`pytest` leaves them out; `pytest -m long` runs them alone, and the nightly workflow does.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def except_for(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
  """Returns values for `pytest.mark.parametrize`, those that are not `quick` with the mark.

  Raises:
    ValueError: one of `quick` is none of the values, so that a name has changed.
  """
  values = list(values)
  if unknown := [each for each in quick if each not in values]:
    raise ValueError(f"{unknown} are not among {values}")
  return [
    each if each in quick else pytest.param(*_arguments(each), marks=pytest.mark.long)
    for each in values
  ]


def _arguments(value):
  return value if isinstance(value, tuple) else (value,)


# Two cores show all that one core shows: the gate runs a test with this mark on two alone.
ON_TWO_CORES = pytest.mark.parametrize(
  "device", except_for(["cpu:2"], ["cpu", "cpu:2", "cpu:8", "xla:8"]), indirect=True
)
