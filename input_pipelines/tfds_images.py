"""Any image classification set of TensorFlow Datasets, by name.

    run.train_input_fn = @train/tfds_images.input_fn
    tfds_images.input_fn.name = "stanford_dogs"
    tfds_images.input_fn.image_size = 224
    train/tfds_images.input_fn.split = "train[:90%]"
    train/tfds_images.input_fn.training = True

The prepared files of a set are read directly, so that one reader shuffles, shards and names damage
in every kind of TFRecord file. Each host reads an even range of the split.
"""

import functools

import gin
import tensorflow as tf

from input_pipelines import hosts, image_pipeline, images, labelled_images, records
from trainer import errors


@gin.configurable
def input_fn(
  params,
  name,
  split="train",
  training=False,
  data_dir=None,
  image_size=None,
  crop="central",
  augment=None,
  standardise=None,
  cache="memory",
  shuffle_buffer=10_000,
  download=True,
  input_context=None,
  start=0,
):
  """Batches of a set that `tfds.builder(name)` knows.

  Args:
    params: dict with "batch_size".
    name: "cifar10", "stanford_dogs:0.2.0", "my_set/my_config".
    split: in TFDS's syntax: "train", "train[:90%]", "train+test".
    training: whether to shuffle, augment and repeat.
    data_dir: TFDS's folder, local or gs://; None for its default.
    image_size, crop, augment, standardise, cache, shuffle_buffer: see `image_pipeline.batches`. A
      crop of "random" in training needs cache = None.
    download: whether to download and prepare the set if data_dir does not have it.
    input_context: tf.distribute.InputContext, or None for one host.
    start: examples that all hosts together have seen before; the framework sets it.

  Returns:
    A dataset of ({"image": float32 [b, height, width, channels]}, labels int32 [b]).

  Raises:
    SettingError: there is no such set or split, or it is not one of labelled images.
    InputError: the set is not there and cannot be downloaded.
  """
  return image_pipeline.batches(
    source(name, split, data_dir, download, input_context),
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


def source(
  name, split, data_dir=None, download=True, input_context=None, gin_name="tfds_images.input_fn"
):
  """The labelled_images.Source of a split, or of this host's part of it; gin_name is what
  messages call the input_fn.
  """
  builder = prepared(name, data_dir, download, gin_name)
  image_key, label_key, shape = _keys(builder, gin_name)
  index, parts = hosts.part_of(input_context)
  segments = records.part(_segments(builder, split, gin_name), index, parts)
  if not segments:
    raise errors.InputError(
      f"{gin_name}.split: {split!r} of {name} has no example for host {index} of {parts}."
    )
  features = {
    image_key: tf.io.FixedLenFeature([], tf.string),
    label_key: tf.io.FixedLenFeature([], tf.int64),
  }

  def parse(path, ordinals, serialized):
    parsed = tf.io.parse_example(serialized, features)
    return {"image": images.checked(parsed[image_key], path, ordinals)}, parsed[label_key]

  return labelled_images.Source(
    name=gin_name,
    key=(
      builder.info.full_name,
      str(builder.data_path),
      [(segment.path, segment.skip, segment.take) for segment in segments],
    ),
    count=sum(segment.take for segment in segments),
    image_shape=shape,
    stream=lambda training, shuffle_buffer, start: records.stream(
      segments, parse, training=training, shuffle_buffer=shuffle_buffer, start=start
    ),
    example_name=records.namer(segments),
  )


@functools.lru_cache(maxsize=16)  # each evaluation of a run calls its input_fn anew
def prepared(name, data_dir, download, gin_name):
  """The tfds builder of a set whose files are there."""
  import tensorflow_datasets as tfds

  try:
    builder = tfds.builder(name, data_dir=data_dir)
  except (tfds.core.registered.DatasetNotFoundError, ValueError, TypeError) as error:
    raise errors.SettingError(
      f"{gin_name}.name: TensorFlow Datasets has no {name!r} (data_dir "
      f"{data_dir}): {_first_line(error)}"
    ) from error
  if not builder.is_prepared():
    if not download:
      raise errors.InputError(
        f"{name} is not in {builder.data_path}: set {gin_name}.data_dir to "
        "the folder that has it, or download = True."
      )
    try:
      builder.download_and_prepare()
    except Exception as error:  # of whatever kind the set's own code raises
      raise errors.InputError(
        f"{name} is not in {builder.data_path} and could not be downloaded "
        f"({type(error).__name__}: {_first_line(error)}). "
        f"If it is elsewhere, set {gin_name}.data_dir."
      ) from error
  if builder.info.file_format.file_suffix != "tfrecord":
    raise errors.SettingError(
      f"{name} is stored as {builder.info.file_format.value}; {gin_name} reads tfrecord."
    )
  return builder


@gin.configurable
def class_names(name, data_dir=None):
  """The names of the classes, in the order of the labels: `run.class_names =
  @tfds_images.class_names()`.
  """
  builder = prepared(name, data_dir, download=False, gin_name="tfds_images.input_fn")
  return tuple(builder.info.features[_keys(builder, "tfds_images.input_fn")[1]].names)


def _keys(builder, gin_name):
  """(key of the image, key of the label, shape of the image)."""
  import tensorflow_datasets as tfds

  keys = builder.info.supervised_keys or ("image", "label")
  features = (
    dict(builder.info.features.items())
    if isinstance(builder.info.features, tfds.features.FeaturesDict)
    else {}
  )
  found = [features.get(key) for key in keys]
  if (
    len(keys) != 2
    or not isinstance(found[0], tfds.features.Image)
    or not isinstance(found[1], tfds.features.ClassLabel)
  ):
    raise errors.SettingError(
      f"{gin_name}.name: {builder.name} is not a set of labelled images; "
      f"its features are {builder.info.features}."
    )
  return *keys, found[0].shape


def _segments(builder, split, gin_name):
  try:
    instructions = builder.info.splits[split].file_instructions
  except (ValueError, KeyError, AssertionError) as error:
    splits = ", ".join(sorted(builder.info.splits))
    raise errors.SettingError(
      f"{gin_name}.split: {builder.name} has no {split!r}; its splits are "
      f"{splits}. ({_first_line(error)})"
    ) from error
  segments = []
  for number, instruction in enumerate(instructions):
    rest = instruction.examples_in_shard - instruction.skip
    take = rest if instruction.take < 0 else instruction.take
    if take:
      segments.append(records.Segment(instruction.filename, number, instruction.skip, take))
  return segments


def _first_line(error):
  return (str(error).splitlines() or [type(error).__name__])[0]
