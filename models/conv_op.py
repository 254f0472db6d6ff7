"""A single convolution, to compare hardware.

The usual sizes are 128 images of 256×256×3 and 256 filters of 5×5 with stride 2, on eight replicas
with 16 images each. `batch_parallel` runs any computation on all replicas. `model_fn` adds a small
trained layer to the convolution, to run and measure it like other models.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import tensorflow as tf

import trainer
from trainer import errors

from . import classification


def convolve(
  images: tf.Tensor, filters: tf.Tensor, stride: int = 2, padding: str = "SAME"
) -> tf.Tensor:
  """Convolves images [b, h, w, c] with filters [height, width, c, count], in their own dtype."""
  return tf.nn.conv2d(images, filters, strides=stride, padding=padding)


def batch_parallel(
  computation: Callable[..., Any], inputs: Sequence[tf.Tensor], strategy: tf.distribute.Strategy
) -> Any:
  """Runs a computation on all replicas of a strategy, each with its own part of the batch.

  Args:
    computation: maps tensors [b, ...] to a nest of tensors [b, ...].
    inputs: tensors [b, ...]. Each replica gets an equal part of the batch.
    strategy: the strategy with the replicas.

  Returns:
    The result of `computation(*inputs)`: the parts' results, concatenated.

  Raises:
    SettingError: the batch is not divisible by the number of replicas.
  """
  shards = strategy.num_replicas_in_sync
  for tensor in inputs:
    if tensor.shape[0] % shards:
      raise errors.SettingError(
        f"batch_parallel: cannot cut a batch of {tensor.shape[0]} into {shards} equal parts, one "
        "for each replica."
      )
  parts = [tf.split(tensor, shards) for tensor in inputs]

  @tf.function
  def run(parts):
    own = [
      strategy.experimental_distribute_values_from_function(
        lambda context, part=part: part[context.replica_id_in_sync_group]
      )
      for part in parts
    ]
    results = strategy.run(computation, own)
    locals_ = [strategy.experimental_local_results(leaf) for leaf in tf.nest.flatten(results)]
    return tf.nest.pack_sequence_as(results, [tf.concat(values, 0) for values in locals_])

  return run(parts)


@gin.configurable
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  filters: int = 256,
  filter_size: int = 5,
  stride: int = 2,
  padding: str = "SAME",
  train_filters: bool = False,
  classes: int = 10,
  optimizer: Callable[[], Any] = keras.optimizers.SGD,
  label_smoothing: float = 0.0,
) -> trainer.EstimatorSpec:
  """Classifies images: convolution → mean over the image → Dense.

  Args:
    features: {"image": float32 [b, h, w, c]}.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    filters: number of filters.
    filter_size: height and width of a filter.
    stride: of the convolution.
    padding: "SAME" or "VALID".
    train_filters: whether to train the filters. If not, a step is the convolution and almost
      nothing else; otherwise it also computes the convolution's gradient.
    classes: number of classes.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: see `classification.spec`.
  """
  del params
  image = features["image"]
  convolution = keras.layers.Layer(name="convolution")
  weights = convolution.add_weight(
    shape=(filter_size, filter_size, image.shape[-1], filters),
    initializer="glorot_uniform",
    trainable=train_filters,
    name="filters",
  )
  dtype = convolution.compute_dtype
  responses = convolve(tf.cast(image, dtype), tf.cast(weights, dtype), stride, padding)
  logits = keras.layers.Dense(classes, dtype="float32", name="top")(
    tf.reduce_mean(tf.cast(responses, tf.float32), [1, 2])
  )
  return classification.spec(mode, logits, labels, optimizer, label_smoothing)
