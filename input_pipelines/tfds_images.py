"""Reads any image classification set of TensorFlow Datasets (TFDS) by its name.

    run.train_input_fn = @train/tfds_images.input_fn
    tfds_images.input_fn.name = "stanford_dogs"
    tfds_images.input_fn.image_size = 224
    train/tfds_images.input_fn.split = "train[:90%]"
    train/tfds_images.input_fn.training = True

`records` reads the prepared files of a set instead of TFDS, so that Octet shuffles all TFRecord
files, divides them among hosts and checks them for damage in the same way. Each host reads an even
range of the split.
"""

import base64
import difflib
import functools
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

import gin
import tensorflow as tf
from absl import logging

import trainer
from trainer import errors

from . import hosts, image_pipeline, images, in_memory, labelled_images, records


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  name: str,
  split: str = "train",
  training: bool = False,
  data_dir: str | None = None,
  image_size: int | Sequence[int] | None = None,
  crop: str = "central",
  augment: Callable[..., tf.Tensor] | None = None,
  mix: Callable[..., tuple[tf.Tensor, tf.Tensor]] | None = None,
  standardise: Any = None,
  cache: str | None = "memory",
  shuffle_buffer: int = 10_000,
  download: bool = True,
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Reads a set that `tfds.builder(name)` can find.

  Args:
    params: dict with "batch_size".
    name: "cifar10", "stanford_dogs:0.2.0", "my_set/my_config".
    split: in TFDS's syntax: "train", "train[:90%]", "train+test".
    training: whether to shuffle, augment and repeat.
    data_dir: TFDS's folder, local or gs://; None for its default.
    image_size: see `image_pipeline.batches`.
    crop: see `image_pipeline.batches`; "random" in training needs cache = None.
    augment: see `image_pipeline.batches`.
    mix: see `image_pipeline.batches`.
    standardise: see `image_pipeline.batches`.
    cache: see `image_pipeline.batches`.
    shuffle_buffer: see `image_pipeline.batches`.
    download: whether to download and prepare the set if data_dir does not have it.
    input_context: None for one host.
    start: number of examples that all hosts together have seen; the framework sets it.

  Returns:
    A dataset of ({"image": float32 [b, height, width, channels]}, labels int32 [b]).

  Raises:
    SettingError: there is no such set or split, or it does not have labelled images.
    InputError: data_dir lacks the set, and the download failed.
  """
  return image_pipeline.batches(
    source(name, split, data_dir, download, input_context),
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


def source(
  name: str,
  split: str,
  data_dir: str | None = None,
  download: bool = True,
  input_context: tf.distribute.InputContext | None = None,
  gin_name: str = "tfds_images.input_fn",
) -> labelled_images.Source:
  """Makes the source of a split, or of this host's part.

  Args:
    name: see `input_fn`.
    split: see `input_fn`.
    data_dir: see `input_fn`.
    download: see `input_fn`.
    input_context: see `input_fn`.
    gin_name: of the input_fn with the settings, for error messages.

  Raises:
    SettingError: see `input_fn`.
    InputError: see `input_fn`; or the host's part is empty.
  """
  builder = prepared_builder(name, data_dir, download, gin_name)
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

  @in_memory.as_written
  def parse(name, serialized):
    parsed = tf.io.parse_example(serialized, features)
    label = records.cast(parsed[label_key], tf.int32, name, f"{gin_name}.name")
    return {"image": images.assert_images(parsed[image_key], name)}, label

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
    example_name=records.record_namer(segments),
  )


@functools.lru_cache(maxsize=16)  # each evaluation of a run calls its input_fn again
def prepared_builder(name: str, data_dir: str | None, download: bool, gin_name: str) -> Any:
  """Returns the TFDS builder of a set with existing files; for Args and Raises see `source`."""
  import tensorflow_datasets as tfds

  if re.match(r"[\w-]+:[A-Za-z_]", name):  # after a colon, a version begins with a number
    raise errors.SettingError(
      f"{gin_name}.name is {name!r}: TensorFlow Datasets would download and run the code of a set "
      "with a namespace. Expected a set without one, such as 'mnist'."
    )
  try:
    builder = tfds.builder(name, data_dir=data_dir)
  except (tfds.core.registered.DatasetNotFoundError, ValueError, TypeError) as error:
    raise errors.SettingError(
      f"{gin_name}.name: TensorFlow Datasets has no {name!r} (data_dir "
      f"{data_dir}): {_first_line(error)}{_near(name)}"
    ) from error
  if not builder.is_prepared():
    if not download:
      raise errors.InputError(
        f"{name} is not in {builder.data_path}: set {gin_name}.data_dir to its folder, or "
        "download = True."
      )
    _check_reachable(builder, gin_name)
    size = sum(int(each.size) for each in builder.url_infos.values())
    logging.info("Downloading %s (%.0f MiB) to %s.", name, size / 2**20, builder.data_path)
    try:
      builder.download_and_prepare()
    except Exception as error:  # each set's own code may raise anything
      raise errors.InputError(
        f"{name} is not in {builder.data_path}, and its download failed ({type(error).__name__}: "
        f"{_first_line(error)}). If another folder has it, set {gin_name}.data_dir."
      ) from error
  if builder.info.file_format.file_suffix != "tfrecord":
    raise errors.SettingError(
      f"{builder.data_path} has {name} in the format {builder.info.file_format.value}; {gin_name} "
      "reads tfrecord."
    )
  return builder


# Seconds for a machine to answer. Without a network, TensorFlow Datasets tries each address ten
# times, which takes 200 s and prints a warning each time.
_CONNECT_SECONDS = 10.0

# TensorFlow Datasets takes many sets from its bucket, already prepared. Such a set does not need
# its original machine.
_BUCKETS = ("storage.googleapis.com", 443)


def _check_reachable(builder, gin_name):
  """Raises InputError if neither the first machine of a set nor TFDS's bucket answers."""
  addresses = list(builder.url_infos)
  if not addresses or urllib.request.getproxies():  # a proxy connects where this machine cannot
    return
  if _is_downloaded(builder, addresses[0]):
    return
  found = urllib.parse.urlsplit(addresses[0])
  port = found.port or {"http": 80, "ftp": 21}.get(found.scheme, 443)
  first_error = _connection_error((found.hostname, port))
  if first_error and _connection_error(_BUCKETS):
    raise errors.InputError(
      f"{builder.name} is not in {builder.data_path}, and {found.hostname}, the host of its "
      f"download, does not answer ({first_error}). If another folder has it, set "
      f"{gin_name}.data_dir."
    ) from first_error


def _is_downloaded(builder, address):
  """Returns whether TFDS has downloaded a file before, and would reuse it."""
  root = builder.data_path.parents[builder.info.full_name.count("/")]
  # TFDS ends the name of a downloaded file with its checksum.
  checksum = bytes.fromhex(builder.url_infos[address].checksum)
  ending = base64.urlsafe_b64encode(checksum).decode().rstrip("=")
  return any((root / "downloads").glob(f"*{ending}*"))


def _connection_error(address):
  """Returns why a machine is unreachable, None if it answers."""
  try:
    socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
  except OSError as error:
    return error
  return None


def _near(name):
  """Returns " Did you mean ...?" with the sets of similar names; "" if there is none."""
  import tensorflow_datasets as tfds

  asked = re.split("[:/]", name)[0]
  known = tfds.list_builders(with_community_datasets=False)
  near = difflib.get_close_matches(asked, known) if asked not in known else []
  return f" Did you mean {' or '.join(near)}?" if near else ""


@gin.configurable
@trainer.check_settings
def class_names(name: str, data_dir: str | None = None, download: bool = True) -> tuple[str, ...]:
  """Returns the names of the classes, in the order of the labels; for Args and Raises see `source`.

  In gin: `run.class_names = @tfds_images.class_names()`. gin calls it before the input_fn, and many
  sets know the names only after their download.
  """
  builder = prepared_builder(name, data_dir, download, "tfds_images.input_fn")
  return tuple(builder.info.features[_keys(builder, "tfds_images.input_fn")[1]].names)


def _keys(builder, gin_name):
  """Returns the key of the image, the key of the label, and the shape of the image."""
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
