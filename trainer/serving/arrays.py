"""Arrays of features: converts values, and checks them against a signature's inputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.cli import formatting

SHOWN = 200  # letters of a library's message


def make(name: str, value: Any, spec: Mapping[str, Any]) -> np.ndarray:
  """Makes an array of the values of a feature.

  Args:
    name: of the feature.
    value: an array or nested lists, of numbers, or of texts and bytes.
    spec: {"dtype", "shape"}, as the signature takes it.

  Raises:
    InputError: the values do not fit.
  """
  dtype, shape = spec["dtype"], spec["shape"]
  wanted = f"{dtype}{['n' if size is None else size for size in shape or [None]]}".replace("'", "")
  try:
    array = _texts(value) if dtype == "string" else _numbers(value, tf.as_dtype(dtype))
  except (ValueError, TypeError, OverflowError) as error:
    reason = formatting.shorten(str(error), SHOWN)
    raise errors.InputError(f"The feature {name!r} must be {wanted}: {reason}.") from error
  if not tf.TensorShape(shape).is_compatible_with(array.shape) or not array.ndim:
    raise errors.InputError(
      f"The feature {name!r} must be {wanted}; its shape is {list(array.shape)}."
    )
  return array


def _texts(value):
  array = np.asarray(value, object)
  # Lists of different lengths become elements of numpy's array.
  for each in array.flat:
    if not isinstance(each, str | bytes):
      raise ValueError(f"it has {type(each).__name__} values")
  return array


def _numbers(value, dtype):
  array = np.asarray(value)
  if array.dtype.kind not in "fiubV":
    kinds = {type(each).__name__ for each in np.asarray(value, object).flat}
    raise ValueError(f"it has {', '.join(sorted(kinds))} values")
  # The checks below find NaN and numbers beyond the type, or these are legal: no warning of numpy.
  with np.errstate(invalid="ignore", over="ignore"):
    converted = array.astype(dtype.as_numpy_dtype, copy=False)
  # A conversion to integers cuts fractions off, and numbers beyond the type wrap around.
  wrong = np.argwhere(array != converted) if dtype.is_integer else ()
  if len(wrong):
    place = [int(index) for index in wrong[0]]
    raise ValueError(f"{array[tuple(place)]} at {place} is no {dtype.name}")
  return converted
