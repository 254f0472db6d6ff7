"""CIFAR-10: 60,000 photos of 32×32 pixels in ten classes.

    run.train_input_fn = @train/cifar10.input_fn
    train/cifar10.input_fn.split = "train"
    train/cifar10.input_fn.training = True
    train/cifar10.input_fn.augment = @augment.standard

Splits: "train" (50,000) and "test" (10,000), or parts of them in TFDS's syntax, such as
  "train[45000:]" for validation; the order in the files is
random, so that any range is a fair sample.

Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

import gin

from input_pipelines import hosts, image_pipeline, tfds_images

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
def input_fn(
  params,
  split="train",
  training=False,
  data_dir=None,
  augment=None,
  standardise=None,
  cache="memory",
  input_context=None,
  start=0,
):
  """CIFAR-10. The arguments are those of `tfds_images.input_fn`.

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
    standardise=standardise,
    cache=cache,
    start=hosts.seen_here(start, input_context),
  )
