"""One convolution, to compare hardware: 128 images of 256×256×3 with 256 filters of 5×5 at stride
2, on eight shards of 16 images each.

`batch_parallel` runs any computation in that way. `model_fn` puts the same convolution under a
small layer that is trained, so that the loops, devices and measurements of every other model serve
for this one too.
"""

import gin
import keras
import tensorflow as tf

from models import classification
from trainer import errors


def convolve(images, filters, stride=2, padding="SAME"):
  """The convolution of images [b, h, w, c] with filters [height, width, c, count], in the
  precision that they have.
  """
  return tf.nn.conv2d(images, filters, strides=stride, padding=padding)


def batch_parallel(computation, inputs, strategy):
  """Runs a computation on all replicas of a strategy, each with its own part of the batch.

  Args:
    computation: function of tensors that returns a nest of tensors; the first axis of all of them
      is the batch.
    inputs: list of tensors, whose batch is cut into as many equal parts as there are replicas.
    strategy: a tf.distribute.Strategy.

  Returns:
    What `computation(*inputs)` does: the parts' results one after another.

  Raises:
    SettingError: the batch cannot be cut into equal parts.
  """
  shards = strategy.num_replicas_in_sync
  for tensor in inputs:
    if tensor.shape[0] % shards:
      raise errors.SettingError(
        f"batch_parallel: a batch of {tensor.shape[0]} cannot be cut into "
        f"{shards} equal parts, one for each replica."
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
  features,
  labels,
  mode,
  params,
  filters=256,
  filter_size=5,
  stride=2,
  padding="SAME",
  train_filters=False,
  classes=10,
  optimizer=keras.optimizers.SGD,
  label_smoothing=0.0,
):
  """Convolution → mean over the image → Dense, as a classifier.

  Args:
    features: {"image": float32 [b, h, w, c]}.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    filters, filter_size, stride, padding: of the convolution; padding is "SAME" or "VALID".
    train_filters: whether a step computes the gradient of the convolution as well. If not, the
      filters stay as they were drawn, and a step is the convolution and next to nothing else.
    classes: width of the layer on top.
    optimizer: a class or callable that makes the optimizer.
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
