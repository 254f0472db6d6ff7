"""A small U-Net: predicts a class for each pixel of an image.

Example, with filters (16, 32):
    Conv 16 ×2 ─────────────────────────────── concat → Conv 16 ×2 → Conv 1×1 → classes
      MaxPool 2 → Conv 32 ×2 → transposed Conv ──┘

Each convolution has 3×3 kernels, and batch norm before its ReLU.

Source: O. Ronneberger, P. Fischer, T. Brox, "U-Net: Convolutional Networks for Biomedical Image
Segmentation" (2015); unlike there, convolutions pad, so that the output has the size of the input.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import tensorflow as tf

import trainer
from trainer import errors

from . import classification


@gin.configurable
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  classes: int = gin.REQUIRED,
  filters: Sequence[int] = (16, 32, 64),
  norm_momentum: float = 0.9,
  optimizer: Callable[[], Any] = keras.optimizers.Adam,
  label_smoothing: float = 0.0,
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Classifies the pixels of images.

  Args:
    features: {"image": float32 [b, h, w, c]}. Height and width are multiples of 2 to the power of
      len(filters) - 1.
    labels: int32 [b, h, w], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    classes: number of classes, background included.
    filters: numbers of filters, from the full size down; each halves height and width.
    norm_momentum: of batch norm's moving averages.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: see `classification.spec`.
    sample_weight: float32 [b] or [b, h, w], weights of the examples or pixels; the framework passes
      them if there are any.

  Returns:
    The EstimatorSpec of `classification.spec`, for each pixel, without the prediction "logits". One
    more metric is "mean_iou": the mean of intersection over union, over the classes that occur.

  Raises:
    SettingError: a size of the images is no such multiple.
  """
  del params
  image = features["image"]
  multiple = 2 ** (len(filters) - 1)
  if any(size % multiple for size in image.shape[1:3]):
    raise errors.SettingError(
      f"unet.model_fn.filters has {len(filters)} sizes, so that height and width must be multiples "
      f"of {multiple}; the images have {image.shape[1]} × {image.shape[2]} pixels."
    )
  training = mode == trainer.ModeKeys.TRAIN
  logits = network(image, training, classes, filters, norm_momentum)
  spec = classification.spec(
    mode, logits, labels, optimizer, label_smoothing, sample_weight=sample_weight
  )
  if mode == trainer.ModeKeys.PREDICT:
    del spec.predictions["logits"]  # as large as the probabilities, for each pixel
  if spec.eval_metrics is None:  # only evaluations have metrics
    return spec
  _, tensors = spec.eval_metrics
  return dataclasses.replace(
    spec, eval_metrics=(functools.partial(metric_fn, classes=classes), tensors)
  )


def network(
  image: tf.Tensor, training: bool, classes: int, filters: Sequence[int], norm_momentum: float
) -> tf.Tensor:
  """Maps images [b, h, w, c] to logits (float32 [b, h, w, classes]); see `model_fn`."""

  def pair(x, count):
    for _ in range(2):
      x = keras.layers.Conv2D(count, 3, padding="same", use_bias=False)(x)
      x = keras.layers.BatchNormalization(momentum=norm_momentum)(x, training=training)
      x = keras.layers.ReLU()(x)
    return x

  x, passed_over = image, []
  for count in filters[:-1]:
    x = pair(x, count)
    passed_over.append(x)
    x = keras.layers.MaxPooling2D()(x)
  x = pair(x, filters[-1])
  for count, before in zip(filters[-2::-1], reversed(passed_over), strict=True):
    x = keras.layers.Conv2DTranspose(count, 2, strides=2)(x)
    x = pair(tf.concat([tf.cast(before, x.dtype), x], -1), count)
  # float32 also with --precision=bfloat16: its 8 bits are too few for the loss.
  return keras.layers.Conv2D(classes, 1, dtype="float32")(x)


def metric_fn(
  labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor | None = None, *, classes: int
) -> dict[str, keras.metrics.Metric]:
  """Returns the metrics of `classification.metric_fn`, and "mean_iou" of all pixels alike."""
  metric = keras.metrics.MeanIoU(classes, sparse_y_pred=False)
  metric.update_state(labels, logits)
  return classification.metric_fn(labels, logits, sample_weight) | {"mean_iou": metric}
