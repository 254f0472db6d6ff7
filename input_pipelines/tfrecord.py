"""Reads sharded TFRecords, local or gs://.

    run.train_input_fn = @train/tfrecord.input_fn
    tfrecord.input_fn.image_size = 160
    train/tfrecord.input_fn.training = True
    train/tfrecord.input_fn.path = "gs://bucket/sensors-*"   # a glob, or a folder
    tfrecord.input_fn.features = {"signal": ((128, 3), "float32"), "label": ((), "int64")}

Hosts read different files if there are enough. Otherwise each host reads an even range of the
records, and counts them first. A folder that Octet 0.1.0 wrote has a shards.json, with the features
and the numbers of records.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gin
import tensorflow as tf

import trainer
from trainer import errors

from . import hosts, image_pipeline, images, in_memory, labelled_images, records, shard_index

IMAGE = ("image", "jpeg")  # in a feature spec: an encoded image of any format


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  path: str,
  features: Mapping[str, Any] | None = None,
  label_key: str | None = "label",
  training: bool = False,
  image_size: int | Sequence[int] | None = None,
  crop: str = "central",
  augment: Callable[..., tf.Tensor] | None = None,
  mix: Callable[..., tuple[tf.Tensor, tf.Tensor]] | None = None,
  standardise: Any = None,
  cache: str | None = None,
  shuffle_buffer: int = 10_000,
  verify: str = "size",
  compression: str = "",
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Reads batches of records, each a serialized tf.train.Example.

  Args:
    params: dict with "batch_size".
    path: a folder or a glob.
    features: name → (shape, dtype), or "image" for an encoded image; None to read them from
      shards.json. int32 and uint32 come from a cast of int64. Dtypes other than these, float32,
      int64 and string come from raw bytes.
    label_key: name of the label's feature; None for no label.
    training: whether to shuffle, augment and repeat.
    image_size: see `image_pipeline.batches`; this and the next five are for sets with an image.
    crop: see `image_pipeline.batches`.
    augment: see `image_pipeline.batches`.
    mix: see `image_pipeline.batches`.
    standardise: see `image_pipeline.batches`.
    cache: see `image_pipeline.batches`.
    shuffle_buffer: number of records to choose the next one from.
    verify: the comparison of files with shards.json before reading: "size", "full" or "off".
    compression: "" or "GZIP".
    input_context: None for one host.
    start: number of examples that all hosts together have seen; the framework sets it.

  Returns:
    A dataset of (features, label), or of features if there is no label. The image's name is always
    "image": float32 [b, h, w, c].

  Raises:
    SettingError: a setting cannot work.
    InputError: there are no files, or they differ from shards.json.
  """
  paths, counts, index = _files(path, verify)
  spec = _spec(features, index, label_key, path)
  segments = _share(paths, counts, compression, input_context)
  image_keys = [key for key, value in spec.items() if value in IMAGE]
  if len(image_keys) > 1:
    raise errors.SettingError(
      f"tfrecord.input_fn.features has {len(image_keys)} images, "
      f"{', '.join(image_keys)}: expected one at most."
    )
  parse = _parser(spec, label_key, image_keys)

  seen = hosts.examples_seen(start, input_context)

  if not image_keys:
    dataset = records.batches(
      segments,
      parse,
      params["batch_size"],
      training=training,
      shuffle_buffer=shuffle_buffer,
      compression=compression,
      start=seen,
    )
    dataset = dataset.map(in_memory.as_written(lambda _, *example: example)).prefetch(
      tf.data.AUTOTUNE
    )
  else:
    known = all(segment.take >= 0 for segment in segments)
    source = labelled_images.Source(
      name="tfrecord.input_fn",
      key=[(segment, tf.io.gfile.stat(segment.path).mtime_nsec) for segment in segments],
      count=sum(segment.take for segment in segments) if known else None,
      image_shape=tuple(index.image_shape) if index else (None, None, None),
      stream=lambda training, shuffle_buffer, start: records.stream(
        segments,
        parse,
        training=training,
        shuffle_buffer=shuffle_buffer,
        compression=compression,
        start=start,
      ),
      example_name=records.record_namer(segments),
    )
    dataset = image_pipeline.batches(
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
      start=seen,
    )
  if label_key is not None:
    return dataset
  features = dataset.map(in_memory.as_written(lambda batch, _: batch))
  return trainer.mark_decodable(features, trainer.decoders_of(dataset)) if image_keys else features


def _files(path, verify):
  """Returns paths, their numbers of records or None, and the ShardIndex or None."""
  folder = path if tf.io.gfile.isdir(path) else os.path.dirname(path)
  index = shard_index.read(folder)
  if folder == path and index is not None:
    paths = None
  else:
    paths = _records_in(path) if folder == path else sorted(tf.io.gfile.glob(path))
    if not paths:
      raise errors.InputError(
        f"There are no files {path} (tfrecord.input_fn.path): expected a "
        "folder with TFRecord files, or a glob."
      )
  if index is None:
    return paths, None, None
  if not index.is_complete:
    raise errors.InputError(
      f"{folder} has {len(index.shards) - index.shards.count(None)} of {len(index.shards)} "
      f"shards: its {shard_index.NAME} was never completed."
    )
  shards = [
    shard for shard in index.shards if paths is None or os.path.join(folder, shard["file"]) in paths
  ]
  if paths is not None and len(shards) < len(paths):
    return paths, None, None  # the glob may match files outside of the index
  shard_index.verify(folder, shards, verify)
  return (
    [os.path.join(folder, shard["file"]) for shard in shards],
    [shard["count"] for shard in shards],
    index,
  )


def _records_in(folder):
  # Not a glob of the folder: its name may have a star or brackets.
  names = sorted(tf.io.gfile.listdir(folder))
  return [os.path.join(folder, name) for name in names if ".tfrecord" in name]


def _spec(features, index, label_key, path):
  spec = features if features is not None else index.features if index else None
  if spec is None:
    raise errors.SettingError(
      f"{path} has no {shard_index.NAME} with the features of its records: set "
      'tfrecord.input_fn.features, such as {"image": "image", "label": ((), "int64")}.'
    )
  for key, value in spec.items():
    if value not in IMAGE and not (isinstance(value, tuple | list) and len(value) == 2):
      raise errors.SettingError(
        f'tfrecord.input_fn.features[{key!r}] is {value!r}: expected (shape, dtype) or "image".'
      )
  if label_key is not None and label_key not in spec:
    raise errors.SettingError(
      f"tfrecord.input_fn.label_key is {label_key!r}, and the features are {', '.join(spec)}."
    )
  return spec


def _share(paths, counts, compression, input_context):
  """Returns this host's segments."""
  index, parts = hosts.part_of(input_context)
  has_file = len(paths) >= parts
  chosen = range(index, len(paths), parts) if has_file else range(len(paths))
  if counts is None and not has_file:
    counts = [records.count(path, compression) for path in paths]
  takes = [-1 if counts is None else counts[number] for number in chosen]
  segments = [
    records.Segment(paths[number], number, 0, take)
    for number, take in zip(chosen, takes, strict=True)
    if take
  ]
  if has_file:
    return segments
  share = records.part(segments, index, parts)
  if not share:
    raise errors.InputError(
      f"The TFRecord files {paths[0]}, ... have {sum(takes)} records, fewer than the {parts} hosts "
      "that read them."
    )
  return share


def _parser(spec, label_key, image_keys):
  """Returns a function for records.stream that parses to (features, label), or 0 for no label."""
  stored = {key: _stored(key, value) for key, value in spec.items()}

  @in_memory.as_written
  def parse(name, serialized):
    parsed = tf.io.parse_example(serialized, stored)

    def cast(key, tensor, dtype):
      setting = f"{key} of tfrecord.input_fn.features"
      return records.cast(tensor, dtype, name, setting)

    tensors = {
      key: parsed[key] if value in IMAGE else cast(key, _raw(parsed[key], *value), value[1])
      for key, value in spec.items()
    }
    label = tensors.pop(label_key) if label_key is not None else tf.zeros_like(serialized, tf.int32)
    if image_keys:
      tensors["image"] = images.assert_images(tensors.pop(image_keys[0]), name)
      label = cast(label_key, label, tf.int32)
    return tensors, label

  return parse


def _stored(key, value):
  if value in IMAGE:
    return tf.io.FixedLenFeature([], tf.string)
  shape, dtype = value
  try:
    dtype = tf.as_dtype(dtype)
  except TypeError as error:
    raise errors.SettingError(
      f"tfrecord.input_fn.features[{key!r}] has the dtype {dtype!r}; expected a TensorFlow dtype."
    ) from error
  if dtype in (tf.float32, tf.int64, tf.string):
    return tf.io.FixedLenFeature(shape, dtype)
  return (
    tf.io.FixedLenFeature(shape, tf.int64)
    if dtype in (tf.int32, tf.uint32)
    else tf.io.FixedLenFeature([], tf.string)
  )


def _raw(tensor, shape, dtype):
  """Decodes raw bytes to the shape and dtype in the spec."""
  if tensor.dtype == tf.string and dtype != tf.string:
    return tf.reshape(tf.io.decode_raw(tensor, dtype), [-1, *shape])
  return tensor
