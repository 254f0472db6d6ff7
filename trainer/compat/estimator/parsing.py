"""Specs for tf.parse_example: features, labels and weights of canned estimators."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def classifier_parse_example_spec(
  feature_columns: Iterable[Any],
  label_key: str,
  label_dtype: tf.DType = tf.int64,
  label_default: Any = None,
  weight_column: Any = None,
) -> dict[str, Any]:
  """Returns the spec of a classifier's Examples by key.

  Args:
    feature_columns: the estimator's columns.
    label_key: the key of the label, a single value.
    label_dtype: tf.int64, or tf.string with a label_vocabulary.
    label_default: the label of an Example without one; None: an error.
    weight_column: the key of the weight, or its numeric_column; None: no weights.

  Raises:
    ValueError: a key is also a feature's key.
  """
  label = tf.io.FixedLenFeature((1,), label_dtype, label_default)
  return _with(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
  feature_columns: Iterable[Any],
  label_key: str,
  label_dtype: tf.DType = tf.float32,
  label_default: Any = None,
  label_dimension: int = 1,
  weight_column: Any = None,
) -> dict[str, Any]:
  """Returns the spec of a regressor's Examples; see classifier_parse_example_spec.

  Args:
    label_dimension: the number of values in a label.
    others: as in classifier_parse_example_spec.
  """
  label = tf.io.FixedLenFeature((label_dimension,), label_dtype, label_default)
  return _with(feature_columns, label_key, label, weight_column)


def _with(
  feature_columns: Iterable[Any], label_key: str, label: Any, weight_column: Any
) -> dict[str, Any]:
  found = tf.compat.v1.feature_column.make_parse_example_spec(feature_columns)
  added = {label_key: label}
  if isinstance(weight_column, str):
    weight_column = tf.feature_column.numeric_column(weight_column)
  if weight_column is not None:
    added |= weight_column.parse_example_spec
  for key in added:
    if key in found:
      raise ValueError(
        f"{key!r} is the key of a feature, of {sorted(found)}, and of no label or weight."
      )
  return found | added
