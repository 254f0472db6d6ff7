"""Reads TFRecord files in an order that depends on a seed, and names damaged records.

    # A dataset of (position, (id, *parse(...))).
    stream = records.stream(segments, parse, training=True, shuffle_buffer=10_000)

A TFRecord file is a sequence of frames: length (8 bytes), checksum of the length (4), data,
checksum of the data (4). TensorFlow's reader checks both checksums and reports the byte of a wrong
one, but not the file. So here the reader of each file counts the bytes that it gets, and compares
them at the end with the size of the file.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors

from . import hosts, in_memory, randomness

FRAME = 16  # bytes of a frame besides data
_CHUNK = 128  # the most records to parse in one call
_CHUNK_BYTES = 1 << 20  # about the most bytes of these records
# Records in one parse call if their number in the file, and so their size, is unknown.
_CHUNK_UNKNOWN = 32
_OPEN_FILES = 16  # fixed, because the order of the records depends on it
_READ_BUFFER = 1 << 20


@dataclasses.dataclass(frozen=True)
class Segment:
  """Consecutive records of one file.

  Attributes:
    path: of the file.
    index: number of the file in the set, the same on every host.
    skip: number of records before the first.
    take: number of records; -1 for all up to the end of the file.
    ends_file: whether the file must end after these records.
  """

  path: str
  index: int
  skip: int = 0
  take: int = -1
  ends_file: bool = False


def part(segments: Sequence[Segment], index: int, parts: int) -> list[Segment]:
  """Returns the segments of one part, an even range of all records.

  Args:
    segments: all must know their number of records (take).
    index: of the part.
    parts: number of parts.
  """
  start, stop = hosts.even_range(sum(segment.take for segment in segments), index, parts)
  found, first = [], 0
  for segment in segments:
    low, high = max(start, first), min(stop, first + segment.take)
    if low < high:
      ends_file = segment.ends_file and high == first + segment.take
      found.append(
        dataclasses.replace(
          segment, skip=segment.skip + low - first, take=high - low, ends_file=ends_file
        )
      )
    first += segment.take
  return found


def record_namer(segments: Sequence[Segment]) -> Callable[[int], str]:
  """Returns a function that names the record at a position of a stream not for training."""

  def name(position):
    for segment in segments:
      if position < segment.take:
        return f"{segment.path}: record {segment.skip + position} (counted from 0)"
      position -= segment.take
    raise ValueError(f"there is no record {position} after the last")

  return name


def assert_each(
  fits: tf.Tensor, tensor: tf.Tensor, path: tf.Tensor, ordinals: tf.Tensor, problem: str
) -> tf.Tensor:
  """Adds a check that names the first record that does not fit.

  Args:
    fits: bool [n].
    tensor: [n, ...].
    path: see `stream`'s parse.
    ordinals: see `stream`'s parse.
    problem: the message after the record's name.

  Returns:
    `tensor`. Reading it raises tf.errors.InvalidArgumentError if the check fails.
  """

  def refuse():
    ordinal = tf.strings.as_string(ordinals[tf.argmin(tf.cast(fits, tf.int32))])
    message = tf.strings.join([path, ": record ", ordinal, " (counted from 0)", problem])
    with tf.control_dependencies([tf.debugging.Assert(False, [message])]):
      return tf.constant(False)

  with tf.control_dependencies([tf.cond(tf.reduce_all(fits), lambda: True, refuse)]):
    return tf.identity(tensor)


def cast(
  tensor: tf.Tensor, dtype: Any, path: tf.Tensor, ordinals: tf.Tensor, setting: str
) -> tf.Tensor:
  """Converts numbers [n, ...]; a check names the first record with a number that would change.

  Args:
    tensor: the records' numbers.
    dtype: an integer type.
    path: see `stream`'s parse.
    ordinals: see `stream`'s parse.
    setting: gin name of what describes these numbers.
  """
  dtype = tf.as_dtype(dtype)
  if tensor.dtype == dtype:
    return tensor
  found = tf.cast(tensor, dtype)
  same = tf.reduce_all(tf.cast(found, tensor.dtype) == tensor, range(1, tensor.shape.rank))
  problem = f" has a number that is no {dtype.name}, {dtype.min:,} to {dtype.max:,} ({setting})"
  return assert_each(same, found, path, ordinals, problem)


def stream(
  segments: Sequence[Segment],
  parse: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple],
  *,
  training: bool,
  shuffle_buffer: int | None = 10_000,
  compression: str = "",
  element_shard: tuple[int, int] | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Makes a dataset of (position, (id, *parsed)).

  Args:
    segments: the records.
    parse: maps a file's path (string scalar), the records' numbers in it (int64 [n]) and serialized
      records (string [n]) to a tuple of nests of tensors [n, ...].
    training: True shuffles files and records and repeats without end. False gives each record once,
      in the order of the files.
    shuffle_buffer: number of records to choose the next one from.
    compression: "" or "GZIP". The reader finds damage in a compressed file, but not its place.
    element_shard: (index, count) to keep only every count-th record, for hosts that share files
      with unknown numbers of records.
    start: training: number of records to skip, since the training has seen them. If all segments
      know their numbers of records, skips whole epochs without reading.

  Returns:
    The dataset. position counts the elements over all epochs; id (int64) identifies a record.
    Reading it raises tf.errors.InvalidArgumentError with file and byte of a damaged record. The
    order depends on the seed of tf.random.set_seed.

  Raises:
    InputError: there is no record, so a training would never end an epoch, or reading a file
      failed.
  """
  converted = in_memory.converted(parse)
  sizes = [_size(segment.path) for segment in segments]
  if not segments or (training and not _has_record(segments, compression, element_shard)):
    raise errors.InputError(_no_record(segments, sizes, element_shard))
  files = tf.data.Dataset.from_tensor_slices(
    (
      [segment.path for segment in segments],
      tf.constant([segment.index for segment in segments], tf.int64),
      tf.constant([segment.skip for segment in segments], tf.int64),
      tf.constant([segment.take for segment in segments], tf.int64),
      [segment.ends_file for segment in segments],
      tf.constant(sizes, tf.int64),
    )
  )

  @in_memory.as_written
  def read(*file):
    return _read(*file, converted, compression)

  def share(records):
    return records if element_shard is None else records.shard(element_shard[1], element_shard[0])

  if not training:
    return share(
      files.interleave(read, cycle_length=1, num_parallel_calls=1, deterministic=True)
    ).enumerate()
  seed = randomness.base_seed()

  @in_memory.as_written
  def one_epoch(epoch):
    # This sets the seed of this function's own graph. If it were 0, shuffle would not accept a
    # tensor as its seed.
    tf.random.set_seed(1)
    shuffled = files.shuffle(len(segments), seed=seed ^ (2 * epoch), reshuffle_each_iteration=False)
    records = share(
      shuffled.interleave(
        read, cycle_length=_OPEN_FILES, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
      )
    )
    return records.shuffle(
      shuffle_buffer, seed=seed ^ (2 * epoch + 1), reshuffle_each_iteration=False
    )

  known = element_shard is None and all(segment.take >= 0 for segment in segments)
  count = sum(segment.take for segment in segments) if known else None
  epochs, passed = divmod(start, count) if count is not None else (0, start)
  records = (
    tf.data.Dataset.range(epochs, tf.int64.max).flat_map(one_epoch).skip(passed).enumerate(start)
  )
  # tf.data cannot see that the dataset is infinite, because flat_map hides it.
  return records.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def _size(path):
  try:
    return tf.io.gfile.stat(path).length
  except tf.errors.OpError as error:
    raise errors.InputError(
      f"Cannot read the file {path}: {error.message.splitlines()[0]}"
    ) from error


def _has_record(segments, compression, element_shard):
  """Returns whether this host has a record; reads files if no segment knows its number."""
  if element_shard is None and any(segment.take > 0 for segment in segments):
    return True
  first = 0 if element_shard is None else element_shard[0]
  paths = [segment.path for segment in segments if segment.take]
  try:
    records = tf.data.TFRecordDataset(paths, compression).skip(first).take(1)
    return bool(records.reduce(0, lambda count, _: count + 1))
  except tf.errors.OpError:
    return True  # there is a damaged one; reading the stream names its file and byte


def _no_record(segments, sizes, element_shard):
  names = ", ".join(segment.path for segment in segments[:3]) + (", ..." if segments[3:] else "")
  text = (
    f"There is no record to read in {len(segments)} TFRecord files ({sum(sizes)} bytes): {names}"
  )
  if element_shard is not None:
    text += f"; of {element_shard[1]} hosts, each of which needs one, this is number "
    text += f"{element_shard[0]}, counted from 0"
  return f"{text}. Was their writer interrupted?"


def _read(path, index, skip, take, ends_file, size, parse, compression):
  """Makes a dataset of a segment's records, (id, *parsed).

  After the last record it raises an error if the segment does not end there.
  """
  records = tf.data.TFRecordDataset(path, compression, _READ_BUFFER).ignore_errors()
  wanted = tf.where(take < 0, tf.int64.max, skip + take)
  chunk_size = tf.where(
    take < 0,
    tf.constant(_CHUNK_UNKNOWN, tf.int64),
    tf.clip_by_value(_CHUNK_BYTES * wanted // tf.maximum(size, 1), 1, _CHUNK),
  )
  # An empty last chunk, at which parse_chunk checks that it has read all bytes.
  end = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))
  chunks = records.take(wanted).batch(chunk_size).concatenate(end)
  start = tf.zeros([], tf.int64), tf.zeros([], tf.int64)

  def parse_chunk(state, chunk):
    offset, ordinal = state
    number = tf.size(chunk, out_type=tf.int64)
    at_end = tf.equal(offset, size) if not compression else tf.constant(True)
    has_all = tf.equal(ordinal, wanted)
    complete = tf.where(take < 0, at_end, has_all & (at_end | ~ends_file))
    where = tf.strings.as_string(offset) if not compression else tf.constant("?")
    problem = tf.where(
      has_all,
      " is one more than the file's index counts",
      " is damaged or cut off, or the file is shorter than its index says",
    )
    message = tf.strings.join([path, ": the record at byte ", where, problem])
    with tf.control_dependencies([tf.debugging.Assert((number > 0) | complete, [message])]):
      following = (
        offset + FRAME * number + tf.reduce_sum(tf.cast(tf.strings.length(chunk), tf.int64)),
        ordinal + number,
      )
    passed = tf.clip_by_value(skip - ordinal, 0, number)
    ordinals = tf.range(ordinal + passed, ordinal + number)
    return following, (index * 2**32 + ordinals, *parse(path, ordinals, chunk[passed:]))

  return chunks.scan(start, parse_chunk).unbatch()
