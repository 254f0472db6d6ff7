"""What tf.parse_example needs for the features, labels and weights of canned estimators."""

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
  """What a classifier's Examples have, by key.

  Args:
    feature_columns: those of the estimator.
    label_key: the key of the label, a single value.
    label_dtype: tf.int64, or tf.string where the classifier has a label_vocabulary.
    label_default: of an Example without a label; None: it is an error.
    weight_column: the key of the weight, or its numeric_column; None: there is none.

  Raises:
    ValueError: a key is also that of a feature.
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
  """What a regressor's Examples have; see classifier_parse_example_spec.

  Args:
    label_dimension: how many numbers a label has.
    others: as there.
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
