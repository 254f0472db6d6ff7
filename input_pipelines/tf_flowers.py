"""tf_flowers: 3,670 photos of five kinds of flowers, of many sizes.

    run.train_input_fn = @train/tf_flowers.input_fn
    tf_flowers.input_fn.image_size = 160
    train/tf_flowers.input_fn.split = "train"
    train/tf_flowers.input_fn.training = True

It comes as one split. Here the first 85 % of its files' records are "train" (3,120 photos) and the
rest is "validation" (550). The records are in random order, so that both have all classes in the
same proportions, and every photo is in one of the two.

Source: The TensorFlow Team, "Flowers", 2019; each photo has its own Creative Commons licence.
"""

import gin

from input_pipelines import hosts, image_pipeline, tfds_images
from trainer import errors

CLASS_NAMES = ("dandelion", "daisy", "tulips", "sunflowers", "roses")
gin.constant("tf_flowers.CLASS_NAMES", CLASS_NAMES)  # run.class_names = %tf_flowers.CLASS_NAMES
SPLITS = {"train": "train[:85%]", "validation": "train[85%:]"}


@gin.configurable
def input_fn(
  params,
  split="train",
  training=False,
  data_dir=None,
  image_size=224,
  crop="central",
  augment=None,
  standardise=None,
  cache="memory",
  shuffle_buffer=2000,
  input_context=None,
  start=0,
):
  """tf_flowers.

  The arguments are those of `tfds_images.input_fn`, but for split: "train" or "validation".

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
    standardise=standardise,
    cache=cache,
    shuffle_buffer=shuffle_buffer,
    start=hosts.seen_here(start, input_context),
  )
