"""tf_flowers: 3,670 photos of five kinds of flowers, of many sizes.

    run.train_input_fn = @train/tf_flowers.input_fn
    tf_flowers.input_fn.image_size = 160
    train/tf_flowers.input_fn.split = "train"
    train/tf_flowers.input_fn.training = True

The set has one split. Here the first 85 % of the records are "train" (3,120 photos) and the rest
"validation" (550). The records are in random order, so both have the classes in about the same
proportions.

Source: The TensorFlow Team, "Flowers", 2019; each photo has its own Creative Commons licence.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import tensorflow as tf

import trainer
from trainer import errors

from . import hosts, image_pipeline, tfds_images

CLASS_NAMES = ("dandelion", "daisy", "tulips", "sunflowers", "roses")
gin.constant("tf_flowers.CLASS_NAMES", CLASS_NAMES)  # run.class_names = %tf_flowers.CLASS_NAMES
SPLITS = {"train": "train[:85%]", "validation": "train[85%:]"}


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  split: str = "train",
  training: bool = False,
  data_dir: str | None = None,
  image_size: int | Sequence[int] = 224,
  crop: str = "central",
  augment: Callable[..., tf.Tensor] | None = None,
  mix: Callable[..., tuple[tf.Tensor, tf.Tensor]] | None = None,
  standardise: Any = None,
  cache: str | None = "memory",
  shuffle_buffer: int = 2000,
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Reads tf_flowers.

  For the arguments see `tfds_images.input_fn`. Here split is "train" or "validation".

  Returns:
    A dataset of ({"image": float32 [b, image_size, image_size, 3]}, labels int32 [b] in 0..4).

  Raises:
    SettingError: there is no such split.
  """
  if split not in SPLITS:
    raise errors.SettingError(
      f"tf_flowers.input_fn.split is {split!r}: expected one of {', '.join(SPLITS)}."
    )
  source = tfds_images.source(
    "tf_flowers",
    SPLITS[split],
    data_dir,
    input_context=input_context,
    gin_name="tf_flowers.input_fn",
  )
  return image_pipeline.batches(
    source,
    params["batch_size"],
    training=training,
    image_size=image_size,
    crop=crop,
    augment=augment,
    mix=mix,
    standardise=standardise,
    cache=cache,
    shuffle_buffer=shuffle_buffer,
    start=hosts.examples_seen(start, input_context),
  )
