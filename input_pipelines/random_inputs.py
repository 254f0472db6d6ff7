"""Random batches, to test a model without its data or measure it without its input pipeline.

    run.train_input_fn = @random_inputs.input_fn
    random_inputs.input_fn.features = {"image": ((32, 32, 3), "float32")}
    random_inputs.input_fn.classes = 10

The input_fn makes a few batches at the beginning and then repeats them, so the host has almost no
work.
"""

from collections.abc import Mapping
from typing import Any

import gin
import tensorflow as tf

import trainer
from trainer import errors


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  features: Mapping[str, Any],
  labels: Any = ((), "int32"),
  classes: int = 10,
  vocabulary_size: int = 100,
  batches: int = 4,
  examples: int | None = None,
  training: bool = True,
) -> tf.data.Dataset:
  """Makes random batches.

  Args:
    params: dict with "batch_size".
    features: name → (shape of one example, dtype). Floats are uniform in [0, 1), integers in [0,
      vocabulary_size).
    labels: (shape, dtype), or None for no labels; integers are in [0, classes).
    classes: number of classes.
    vocabulary_size: number of values of integer features.
    batches: number of different batches.
    examples: if not training: number of examples; None for `batches` full batches.
    training: whether to repeat without end.

  Returns:
    A dataset of (features, labels), or of features if labels is None. The numbers depend on the
    seed of tf.random.set_seed.

  Raises:
    SettingError: a spec is not (shape, dtype).
  """
  size = params["batch_size"]
  made = {
    name: _made(spec, f"features[{name!r}]", batches * size, vocabulary_size)
    for name, spec in features.items()
  }
  elements = made if labels is None else (made, _made(labels, "labels", batches * size, classes))
  dataset = tf.data.Dataset.from_tensor_slices(
    tf.nest.map_structure(
      lambda tensor: tf.reshape(tensor, [batches, size, *tensor.shape[1:]]), elements
    )
  )
  if training:
    return dataset.repeat()
  if examples is None:
    return dataset
  return dataset.repeat().unbatch().take(examples).batch(size)


def _made(spec, name, count, limit):
  try:
    shape, dtype = spec
    shape, dtype = [count, *shape], tf.as_dtype(dtype)
  except (TypeError, ValueError) as error:
    expected = '(shape of one example, dtype), as ((32, 32, 3), "float32")'
    raise errors.SettingError(
      f"random_inputs.input_fn.{name} is {spec!r}: expected {expected}."
    ) from error
  if dtype.is_floating:
    return tf.cast(tf.random.uniform(shape), dtype)
  if dtype.is_integer:
    return tf.cast(tf.random.uniform(shape, maxval=limit, dtype=tf.int32), dtype)
  if dtype.is_bool:
    return tf.random.uniform(shape) < 0.5
  raise errors.SettingError(
    f"random_inputs.input_fn.{name} has dtype {dtype.name}: expected a float, integer or bool."
  )
