"""The place of the largest feature in a map, and the largest features of groups."""

from typing import Any

import tensorflow as tf

from trainer.compat.layers.contrib.common import collections_of, model_variable

v1 = tf.compat.v1


def spatial_softmax(
  features: tf.Tensor,
  temperature: float | None = None,
  name: Any = None,
  variables_collections: Any = None,
  trainable: bool = True,
  data_format: str = "NHWC",
) -> tf.Tensor:
  """Returns the expected position of each channel's maximum, [batch, 2 * channels], from -1 to 1.

  Finn et al., https://arxiv.org/abs/1509.06113.

  Args:
    features: [batch, height, width, channels], or as data_format says.
    temperature: the initial value of the variable that divides the features; default 1.
    name: a variable scope or its name.
    variables_collections: collections that get the variable; a dict has them by "temperature".
    trainable: whether the variable is.
    data_format: "NHWC" or "NCHW".

  Raises:
    ValueError: another data_format, or an unknown number of channels.
  """
  if data_format not in ("NHWC", "NCHW"):
    raise ValueError(f"spatial_softmax(data_format={data_format!r}): expected 'NHWC' or 'NCHW'.")
  with v1.variable_scope(name, "spatial_softmax"):
    if data_format == "NHWC":
      features = tf.transpose(features, [0, 3, 1, 2])
    channels = features.shape[1]
    if channels is None:
      raise ValueError(
        f"spatial_softmax: expected a known number of channels, got {features.shape}."
      )
    height, width = tf.shape(features)[2], tf.shape(features)[3]
    rows, columns = tf.meshgrid(
      tf.linspace(-1.0, 1.0, height), tf.linspace(-1.0, 1.0, width), indexing="ij"
    )
    divisor = model_variable(
      "temperature",
      (),
      initializer=v1.constant_initializer(1.0 if temperature is None else temperature),
      collections=collections_of(variables_collections, "temperature") if trainable else None,
      trainable=trainable,
    )
    weights = tf.nn.softmax(tf.reshape(features, [-1, height * width]) / divisor)
    expected = [
      tf.reduce_sum(tf.reshape(positions, [-1]) * weights, 1, keepdims=True)
      for positions in (rows, columns)
    ]
    found = tf.reshape(tf.concat(expected, 1), [-1, int(channels) * 2])
    found.set_shape([None, int(channels) * 2])
    return found


def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> tf.Tensor:
  """Returns the maximum of each group of features: num_units groups on an axis.

  Goodfellow et al., https://arxiv.org/abs/1302.4389.

  Raises:
    ValueError: num_units does not divide the number of features.
  """
  with v1.variable_scope(scope, "MaxOut", [inputs]):
    inputs = tf.convert_to_tensor(inputs)
    features = inputs.shape[axis]
    if features % num_units:
      raise ValueError(f"maxout(num_units={num_units}): expected a factor of {features} features.")
    dynamic = tf.shape(inputs)
    sizes = [dynamic[at] if size is None else size for at, size in enumerate(inputs.shape)]
    sizes[axis] = num_units
    return tf.reduce_max(tf.reshape(inputs, [*sizes, features // num_units]), -1)
