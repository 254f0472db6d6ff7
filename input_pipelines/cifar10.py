"""CIFAR-10: 60,000 photos of 32×32 pixels in ten classes.

    run.train_input_fn = @train/cifar10.input_fn
    train/cifar10.input_fn.split = "train"
    train/cifar10.input_fn.training = True
    train/cifar10.input_fn.augment = @augment.standard

Splits are "train" (50,000) and "test" (10,000), or parts in the syntax of TensorFlow Datasets, such
as "train[45000:]" for validation. The order in the files is random, so any range is a fair sample.

Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

from collections.abc import Callable
from typing import Any

import gin
import tensorflow as tf

import trainer

from . import hosts, image_pipeline, tfds_images

CLASS_NAMES = (
  "airplane",
  "automobile",
  "bird",
  "cat",
  "deer",
  "dog",
  "frog",
  "horse",
  "ship",
  "truck",
)
gin.constant("cifar10.CLASS_NAMES", CLASS_NAMES)  # run.class_names = %cifar10.CLASS_NAMES


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  split: str = "train",
  training: bool = False,
  data_dir: str | None = None,
  augment: Callable[..., tf.Tensor] | None = None,
  mix: Callable[..., tuple[tf.Tensor, tf.Tensor]] | None = None,
  standardise: Any = None,
  cache: str | None = "memory",
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Reads CIFAR-10; for the arguments see `tfds_images.input_fn`.

  Returns:
    A dataset of ({"image": float32 [b, 32, 32, 3]}, labels int32 [b] in 0..9).
  """
  source = tfds_images.source(
    "cifar10", split, data_dir, input_context=input_context, gin_name="cifar10.input_fn"
  )
  return image_pipeline.batches(
    source,
    params["batch_size"],
    training=training,
    augment=augment,
    mix=mix,
    standardise=standardise,
    cache=cache,
    start=hosts.examples_seen(start, input_context),
  )
