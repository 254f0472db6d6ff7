"""Example weights: the third part of an element, `(features, labels, sample_weight)`.

    dataset of (features, labels, sample_weight)     # as keras.Model.fit takes it
    RunConfig.weight_column = "weight"               # or the feature that has them
    RunConfig.class_weight = {0: 1.0, 1: 5.0}        # in training: by the label, times the others
    RunConfig.class_weight = "balanced"              # examples / (classes × examples of the class)

A weighted loss is the sum of weight × loss over the examples, divided by the number of examples,
not by the sum of the weights: Keras's "sum_over_batch_size". The mean over the cores then equals
the loss of the global batch, for any weights on a core. `trainer.global_mean` divides by the sum.
A model_fn with the argument `sample_weight` gets the weights.
"""

import difflib
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors, run_config
from trainer.inputs import decodable, elements
from trainer.settings.kinds import Kind

_WHERE = "RunConfig.class_weight"

# dataset → the labels of all its examples [n]
_labels: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def mark_labels(dataset: tf.data.Dataset, labels: Any) -> tf.data.Dataset:
  """Declares the labels of a training set, for a "balanced" RunConfig.class_weight.

  With declared labels, a class in RunConfig.class_weight without examples is an error, too. Only
  the marked dataset itself has the mark, not one that `map` or others make from it.

  Args:
    dataset: the dataset that an input_fn returns.
    labels: int array [n], the classes of all examples, including other hosts'.

  Returns:
    The same dataset.

  Raises:
    SettingError: labels is not such an array.
  """
  array = np.asarray(labels)
  if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
    raise errors.SettingError(
      f"mark_labels: labels has the shape {list(array.shape)} and the type {array.dtype}: expected "
      "an integer for each example."
    )
  _labels[dataset] = array
  return dataset


def keep_labels(dataset: tf.data.Dataset, changed: tf.data.Dataset) -> tf.data.Dataset:
  """Copies the mark of a dataset to another one with the same examples, and returns that."""
  if dataset in _labels:
    _labels[changed] = _labels[dataset]
  return changed


def apply(
  dataset: tf.data.Dataset, kind: str, config: run_config.RunConfig, name: str
) -> tf.data.Dataset:
  """Puts the weights of a RunConfig into the elements of a dataset, and checks all weights.

  Args:
    dataset: the result of `trainer.inputs.call`.
    kind: "train", "eval" or "predict".
    config: the RunConfig.
    name: the input_fn's name, for messages.

  Returns:
    A dataset of (features, labels, sample_weight), sample_weight float32, if there are weights.
    Predictions need no weights, and no feature weight_column either.

  Raises:
    SettingError: the weights do not fit the features or labels.
    InputError: raised during the reading of the dataset: a weight is negative, infinite or NaN.
  """
  table = _table(dataset, config.class_weight, name) if kind == Kind.TRAIN else None
  if config.weight_column:
    dataset = _from_column(dataset, config.weight_column, kind, name)
  if kind == Kind.PREDICT or (table is None and not _has_weights(dataset)):
    return dataset
  _check_shapes(dataset.element_spec, name)

  def weighted(features, labels, weights=None):
    if weights is not None:
      weights = tf.nest.map_structure(_checked, weights)
    if table is not None:
      of_classes = tf.gather(table, _classes(labels, len(table) - 1))
      weights = of_classes if weights is None else _times(weights, of_classes)
    return features, labels, weights

  # AutoGraph would turn each `if` above into an operation.
  changed = dataset.map(
    tf.autograph.experimental.do_not_convert(weighted),
    num_parallel_calls=tf.data.AUTOTUNE,
    deterministic=True,
  )
  return decodable.keep_mark(dataset, changed)


def _has_weights(dataset):
  return len(dataset.element_spec) == 3


def _from_column(dataset, column, kind, name):
  """Moves a feature to the third place of the elements."""
  features = dataset.element_spec[0]
  if not isinstance(features, dict) or column not in features:
    if kind == Kind.PREDICT:
      return dataset
    names = list(features) if isinstance(features, dict) else []
    near = difflib.get_close_matches(column, names, n=3) or names
    raise errors.SettingError(
      f"RunConfig.weight_column is {column!r}, and the {name} gives no such feature: expected "
      f"{' or '.join(map(repr, near)) or 'the name of a feature, of a dict'}."
    )
  if _has_weights(dataset):
    raise errors.SettingError(
      f"RunConfig.weight_column is {column!r}, and the {name} already gives weights, as the third "
      "part of its elements: remove one of the two."
    )
  if kind != Kind.PREDICT and len(dataset.element_spec) < 2:
    raise errors.SettingError(
      f"RunConfig.weight_column is {column!r}, and the {name} gives no labels, hence no loss to "
      "weight."
    )

  @tf.autograph.experimental.do_not_convert
  def move(features, *labels):
    others = {key: value for key, value in features.items() if key != column}
    return (others, *labels) if kind == Kind.PREDICT else (others, *labels, features[column])

  changed = dataset.map(move, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
  return decodable.keep_mark_without(dataset, changed, column)


def _check_shapes(spec, name):
  """Raises SettingError for weights that do not match the labels one by one."""
  if len(spec) == 2:
    return
  shapes = [leaf.shape for _, leaf in elements.named_leaves((spec[1],))]
  for path, leaf in elements.named_leaves(spec):
    if not path.startswith("sample_weight"):
      continue
    if not (leaf.dtype.is_floating or leaf.dtype.is_integer or leaf.dtype.is_bool):
      raise errors.SettingError(f"{path} of the {name} is of {leaf.dtype.name}; expected numbers.")
    if not any(map(_belong, [leaf.shape] * len(shapes), shapes)):
      raise errors.SettingError(
        f"{path} of the {name} has shape {leaf.shape}, and the labels {shapes[0]}: expected a "
        "weight for each example, or for each of its labels."
      )


def _belong(weights, labels):
  """Whether weights are [batch], [batch, 1, ...], or have the first axes of the labels."""
  if weights.rank is None or labels.rank is None:
    return True
  if weights.rank == 0 or not weights[:1].is_compatible_with(labels[:1]):
    return False
  of_examples = all(size == 1 for size in weights.as_list()[1:])
  return of_examples or weights.is_compatible_with(labels[: weights.rank])


def _checked(weights):
  weights = tf.cast(weights, tf.float32)
  is_valid = tf.reduce_all((weights >= 0.0) & tf.math.is_finite(weights))
  message = "A weight of an example (sample_weight) is negative, infinite or no number"
  with tf.control_dependencies([tf.raw_ops.Assert(condition=is_valid, data=[message])]):
    return tf.identity(weights)


def _times(weights, of_classes):
  """Multiplies example weights by the weights of an example's labels, [batch, ...]."""
  rank = max(weights.shape.rank, of_classes.shape.rank)
  return _with_rank(weights, rank) * _with_rank(of_classes, rank)


def _with_rank(tensor, rank):
  more = [1] * (rank - tensor.shape.rank)
  return tf.reshape(tensor, tf.concat([tf.shape(tensor), more], 0)) if more else tensor


def _table(dataset, class_weight, name):
  """Returns the weights of class 0, 1, ..., with 1 for missing classes."""
  if class_weight is None:
    return None
  if len(dataset.element_spec) < 2 or not isinstance(dataset.element_spec[1], tf.TensorSpec):
    raise errors.SettingError(
      f"{_WHERE} needs one tensor of labels; the {name} gives none, or several."
    )
  known = _labels.get(dataset)
  if class_weight == run_config.BALANCED:
    if known is None:
      raise errors.SettingError(
        f'{_WHERE} is "balanced", and the {name} does not say how often each class comes: give the '
        "weights as {0: 1.0, 1: 5.0}, or mark its dataset with trainer.mark_labels."
      )
    classes, counts = np.unique(known, return_counts=True)
    balanced = len(known) / (len(classes) * counts)
    class_weight = dict(zip(classes.tolist(), balanced.tolist(), strict=True))
  elif known is not None:
    check_classes(class_weight, int(known.max()) + 1, f"the {name}")
  table = np.ones(max(class_weight) + 2, np.float32)
  table[list(class_weight)] = list(class_weight.values())
  return table


def check_classes(class_weight: Any, classes: int, whose: str) -> None:
  """Raises SettingError for a class in RunConfig.class_weight that does not exist.

  Args:
    class_weight: the setting.
    classes: the number of classes.
    whose: the owner of the classes, for the message.
  """
  if isinstance(class_weight, Mapping) and max(class_weight) >= classes:
    raise errors.SettingError(
      f"{_WHERE} has the class {max(class_weight)}, and {whose} has {classes} classes, "
      f"0 to {classes - 1}."
    )


def _classes(labels, others):
  """Returns the class of each label, `others` for one without a weight of its own."""
  if labels.dtype.is_floating and labels.shape.rank > 1 and labels.shape.as_list()[-1] != 1:
    is_one_hot = tf.reduce_all(tf.abs(tf.reduce_sum(labels, -1) - 1.0) < 1e-3)
    message = f"{_WHERE} meets a label that is neither an integer nor one-hot"
    with tf.control_dependencies([tf.raw_ops.Assert(condition=is_one_hot, data=[message])]):
      classes = tf.argmax(labels, -1, tf.int32)
  else:
    classes = tf.cast(labels, tf.int32)
  return tf.where((classes >= 0) & (classes < others), classes, others)
