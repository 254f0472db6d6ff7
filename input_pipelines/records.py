"""Reads TFRecord files in an order that depends on a seed, and names damaged records.

    # A dataset of (ids, *parse(name, serialized)), in batches of 128.
    batches = records.batches(segments, parse, 128, training=True, shuffle_buffer=10_000)
    # A dataset of (position, (id, *parsed)), record by record.
    stream = records.stream(segments, parse, training=True, shuffle_buffer=10_000)

In training, open files give chunks of records in turn. The following `shuffle_buffer` records, a
window, are shuffled together. A training that resumes finds the beginning of its window by the
lengths of the records, and does not read their data.

A TFRecord file is a sequence of frames: length (8 bytes), checksum of the length (4), data,
checksum of the data (4). TensorFlow's reader checks both checksums, but its error does not name the
file, and a cut off GZIP file is none. So here the reader of each file counts the bytes that it
gets, and compares them at the end with the size of the file.
"""

import collections
import dataclasses
import functools
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer import errors

from . import hosts, in_memory, randomness

FRAME = 16  # bytes of a frame besides data
_length = struct.Struct("<Q").unpack_from  # the length of a record, from the bytes of its frame
_HEADERS = 1 << 16  # bytes to read at once for the lengths of records
_CHUNK = 256  # the most records of a file in turn
_CHUNK_BYTES = 1 << 20  # about the most bytes of these records
_WINDOW_BYTES = 1 << 28  # about the most bytes of records to shuffle together
_OPEN_FILES = 16  # fixed, because the order of the records depends on it
_READ_BUFFER = 1 << 20
_DAMAGED = "is damaged or cut off, or the file is shorter than its index says"


@dataclasses.dataclass(frozen=True)
class Segment:
  """Consecutive records of one file.

  Attributes:
    path: of the file.
    index: number of the file in the set, the same on every host.
    skip: number of records before the first.
    take: number of records; -1 for all records of the file. skip is then 0.
  """

  path: str
  index: int
  skip: int = 0
  take: int = -1


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
      found.append(dataclasses.replace(segment, skip=segment.skip + low - first, take=high - low))
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


def count(path: str, compression: str = "") -> int:
  """Counts the records of a file; reads only their lengths if there is no compression.

  Raises:
    InputError: the file is damaged, or reading it failed.
  """
  if not compression:
    return _Frames(path).after(0, sys.maxsize)[0]
  number, read = _measured(path, compression)
  if (int(read) - _size(path, compression)) % 2**32:
    raise errors.InputError(f"{path}: the record at byte ? {_DAMAGED}")
  return int(number)


def assert_each(
  fits: tf.Tensor, tensor: tf.Tensor, name: Callable[[tf.Tensor], tf.Tensor], problem: str
) -> tf.Tensor:
  """Adds a check that names the first record that does not fit.

  Args:
    fits: bool [n].
    tensor: [n, ...].
    name: see `batches`' parse.
    problem: the message after the record's name.

  Returns:
    `tensor`. Reading it raises tf.errors.InvalidArgumentError if the check fails.
  """

  def refuse():
    message = name(tf.argmin(tf.cast(fits, tf.int32))) + problem
    with tf.control_dependencies([tf.debugging.Assert(False, [message])]):
      return tf.constant(False)

  with tf.control_dependencies([tf.cond(tf.reduce_all(fits), lambda: True, refuse)]):
    return tf.identity(tensor)


def cast(
  tensor: tf.Tensor, dtype: Any, name: Callable[[tf.Tensor], tf.Tensor], setting: str
) -> tf.Tensor:
  """Converts numbers [n, ...]; a check names the first record with a number that would change.

  Args:
    tensor: the records' numbers.
    dtype: an integer type.
    name: see `batches`' parse.
    setting: gin name of what describes these numbers.
  """
  dtype = tf.as_dtype(dtype)
  if tensor.dtype == dtype:
    return tensor
  found = tf.cast(tensor, dtype)
  same = tf.reduce_all(tf.cast(found, tensor.dtype) == tensor, range(1, tensor.shape.rank))
  problem = f" has a number that is no {dtype.name}, {dtype.min:,} to {dtype.max:,} ({setting})"
  return assert_each(same, found, name, problem)


def stream(
  segments: Sequence[Segment],
  parse: Callable[[Callable[[tf.Tensor], tf.Tensor], tf.Tensor], tuple],
  *,
  training: bool,
  shuffle_buffer: int | None = 10_000,
  compression: str = "",
  start: int = 0,
) -> tf.data.Dataset:
  """Makes a dataset of (position, (id, *parsed)); for Args, Returns and Raises see `batches`.

  position counts the elements over all epochs, from `start` on.
  """
  parsed = batches(
    segments,
    parse,
    None,
    training=training,
    shuffle_buffer=shuffle_buffer,
    compression=compression,
    start=start,
  )
  return _endless(parsed.unbatch().enumerate(start), training)


def batches(
  segments: Sequence[Segment],
  parse: Callable[[Callable[[tf.Tensor], tf.Tensor], tf.Tensor], tuple],
  batch_size: int | None,
  *,
  training: bool,
  shuffle_buffer: int | None = 10_000,
  compression: str = "",
  start: int = 0,
) -> tf.data.Dataset:
  """Makes a dataset of (ids, *parsed), batches of records.

  Args:
    segments: the records.
    parse: maps (name, serialized) to a tuple of nests of tensors [n, ...]. serialized has the
      records, string [n]. name is a function that maps a place in serialized, int64 scalar, to the
      record's name, string scalar.
    batch_size: n; the last batch of an evaluation may be smaller. None for a size that fits the
      records.
    training: True shuffles files and records and repeats without end. False gives each record once,
      in the order of the files.
    shuffle_buffer: number of records to shuffle together; fewer if they are large, about 256 MB.
    compression: "" or "GZIP". The reader finds damage in a compressed file, but not its place.
    start: training: number of records to skip, since the training has seen them. Reads only the
      lengths of records of the epoch; with GZIP, reads these records.

  Returns:
    The dataset. ids (int64 [n]) identify the records. Reading it raises
    tf.errors.InvalidArgumentError with file and byte of a damaged record. The order depends on the
    seed of tf.random.set_seed.

  Raises:
    InputError: there is no record, so a training would never end an epoch, or reading a file
      failed.
  """
  convert: Any = in_memory.converted(parse)
  sizes = {segment.path: _size(segment.path, compression) for segment in segments}
  record_bytes = _record_bytes(segments, compression)
  if not segments or (training and record_bytes is None):
    raise errors.InputError(_no_record(segments))
  frame = FRAME + (record_bytes or 0)
  chunk = min(max(_CHUNK_BYTES // frame, 1), _CHUNK)
  name = _namer(segments)

  @in_memory.as_written
  def parsed(ids, serialized):
    return ids, *convert(functools.partial(name, ids), serialized)

  def read(files, open_files):
    return files.interleave(
      in_memory.as_written(lambda *file: _read(*file, chunk, compression)),
      cycle_length=open_files,
      num_parallel_calls=tf.data.AUTOTUNE if training else 1,
      deterministic=True,
    )

  places = [_Place(segment) for segment in segments]
  if training:
    window = max(min(shuffle_buffer or 1, _WINDOW_BYTES // frame), 1)
    records = _epochs(places, sizes, read, chunk, window, compression, start)
  else:
    records = read(tf.data.Dataset.from_tensor_slices(_columns(places, sizes)), 1)
  records = records.rebatch(batch_size or chunk, drop_remainder=training)
  return _endless(
    records.map(parsed, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True), training
  )


def _endless(dataset, training):
  # tf.data cannot see that a training's dataset is infinite, because flat_map hides it.
  endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
  return dataset.apply(endless) if training else dataset


def _epochs(places, sizes, read, chunk, window, compression, start):
  """Makes the endless dataset of a training's records, in chunks of any size."""
  seed = randomness.base_seed()
  first_epoch, passed = _epoch_of(start, [place.segment for place in places], compression)
  first_window, passed_in_window = divmod(passed, window)

  def order(count, epoch, number):
    seeds = tf.stack([seed ^ epoch, number])
    return tf.random.experimental.stateless_shuffle(tf.range(count), seeds)

  with tf.device("CPU"):
    rows = order(len(places), tf.constant(first_epoch, tf.int64), -1).numpy()
  left, reached = [places[row] for row in rows], 0
  if not compression:
    left, reached = _passed_over(left, chunk, first_window * window)
  columns, left_columns = _columns(places, sizes), _columns(left, sizes)

  @in_memory.as_written
  def one_epoch(epoch):
    def shuffled():
      rows = order(len(places), epoch, -1)
      return tuple(tf.gather(column, rows) for column in columns)

    is_first = tf.equal(epoch, first_epoch)
    files = tf.data.Dataset.from_tensor_slices(tf.cond(is_first, lambda: left_columns, shuffled))

    @in_memory.as_written
    def drop(count, records):
      number = tf.minimum(count, tf.size(records[0], out_type=tf.int64))
      # A gather copies. rebatch logs errors of TensorFlow about a slice, which shares its memory.
      left = tf.range(number, tf.size(records[0], out_type=tf.int64))
      kept = tf.cond(
        number > 0, lambda: tuple(tf.gather(tensor, left) for tensor in records), lambda: records
      )
      return count - number, kept

    @in_memory.as_written
    def shuffle(number, records):
      rows = order(tf.size(records[0]), epoch, number)
      is_started = is_first & tf.equal(number, first_window)
      rows = rows[tf.where(is_started, passed_in_window, 0) :]
      return tuple(tf.gather(tensor, rows) for tensor in records)

    # The records between the places where the files go on, and the first window.
    between = tf.where(is_first, tf.constant(first_window * window - reached, tf.int64), 0)
    number = tf.where(is_first, tf.constant(first_window, tf.int64), 0)
    return (
      read(files, _OPEN_FILES).scan(between, drop).rebatch(window).enumerate(number).map(shuffle)
    )

  epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
  return epochs.flat_map(one_epoch).prefetch(1)


def _epoch_of(start, segments, compression):
  """Returns the epoch of a position, and the number of the epoch's records before it."""
  total = 0
  for segment in segments:
    total += segment.take if segment.take >= 0 else count(segment.path, compression)
    # It is in the first epoch: the rest need not be counted.
    if total > start:
      return 0, start
  return divmod(start, total)


@dataclasses.dataclass
class _Place:
  """Where a reader is in a segment: before the record with a number, at a byte of the file."""

  segment: Segment
  ordinal: int = 0
  byte: int = 0


class _Frames:
  """The frames of a file without compression, by their lengths alone."""

  def __init__(self, path):
    self._path, self._size = path, _size(path)
    self._file = tf.io.gfile.GFile(path, "rb")
    self._start, self._buffer = 0, b""

  def after(self, byte, most):
    """Returns the number of records from a byte on, at most `most`, and the byte after them."""
    number = 0
    while number < most and byte < self._size:
      if not 0 <= byte - self._start <= len(self._buffer) - FRAME:
        self._file.seek(byte)
        self._start, self._buffer = byte, self._file.read(_HEADERS)
      place = begin = byte - self._start
      last = len(self._buffer) - FRAME
      while place <= last and number < most:
        begin, place, number = place, place + FRAME + _length(self._buffer, place)[0], number + 1
      byte = self._start + place
      if last < 0 or byte > self._size:
        raise errors.InputError(
          f"{self._path}: the record at byte {self._start + begin} {_DAMAGED}"
        )
    return number, byte


def _passed_over(places, chunk, target):
  """Finds where a training goes on, without reading the data of the records before.

  It follows the order of Dataset.interleave: an ended file gives no chunk in its turn, and the next
  file takes its place at the turn after.

  Args:
    places: the files' beginnings.
    chunk: number of records of a file in turn.
    target: number of records to pass over.

  Returns:
    (places, reached): where the files go on, in the order of their turns; the number of passed
    records, at most a chunk less than the target.
  """
  waiting, turns = collections.deque(places), collections.deque([None] * _OPEN_FILES)
  frames: dict[str, _Frames] = {}
  reached = 0
  while reached < target and (waiting or any(turns)):
    if turns[0] is None and waiting:
      turns[0] = waiting.popleft()
    if (place := turns[0]) is not None:
      segment, ordinal, byte = place.segment, place.ordinal, place.byte
      if segment.path not in frames:
        frames[segment.path] = _Frames(segment.path)
      file = frames[segment.path]
      if ordinal < segment.skip:
        ordinal, byte = segment.skip, file.after(byte, segment.skip - ordinal)[1]
      left = chunk if segment.take < 0 else min(chunk, segment.skip + segment.take - ordinal)
      number, byte = file.after(byte, left)
      if reached + number > target:
        break
      reached += number
      turns[0] = _Place(segment, ordinal + number, byte) if number else None
    turns.rotate(-1)
  found = [place or (waiting.popleft() if waiting else None) for place in turns]
  return [place for place in [*found, *waiting] if place is not None], reached


def _columns(places, sizes):
  """Returns the arguments of `_read` for each file, tensors [n]."""

  def numbers(values):
    return tf.constant(list(values), tf.int64)

  segments = [place.segment for place in places]
  return (
    tf.constant([segment.path for segment in segments]),
    numbers(segment.index for segment in segments),
    numbers(max(place.segment.skip - place.ordinal, 0) for place in places),
    numbers(place.ordinal for place in places),
    numbers(place.byte for place in places),
    numbers(segment.skip + segment.take if segment.take >= 0 else -1 for segment in segments),
    numbers(sizes[segment.path] for segment in segments),
  )


def _size(path, compression=""):
  """Returns the bytes of a file's frames. A GZIP file ends with them, modulo 2 ** 32."""
  try:
    size = tf.io.gfile.stat(path).length
    if not compression:
      return size
    with tf.io.gfile.GFile(path, "rb") as file:
      file.seek(max(size - 4, 0))
      return int.from_bytes(file.read(4), "little")
  except tf.errors.OpError as error:
    raise errors.InputError(
      f"Cannot read the file {path}: {error.message.splitlines()[0]}"
    ) from error


def _record_bytes(segments, compression):
  """Returns the bytes of the first record; None without a record."""
  paths = [segment.path for segment in segments if segment.take]
  try:
    records = tf.data.TFRecordDataset(paths, compression).take(1)
    return next((len(record) for record in records.as_numpy_iterator()), None)
  except tf.errors.OpError:
    return 0  # it is damaged; reading the stream names its file and byte


def _no_record(segments):
  names = ", ".join(segment.path for segment in segments[:3]) + (", ..." if segments[3:] else "")
  size = sum(tf.io.gfile.stat(segment.path).length for segment in segments)
  return (
    f"There is no record to read in {len(segments)} TFRecord files ({size} bytes): {names}. Was "
    "their writer interrupted?"
  )


def _namer(segments):
  """Returns a function that maps records' ids and a place among them to a record's name."""
  paths = tf.constant([segment.path for segment in segments])
  indices = tf.constant([segment.index for segment in segments], tf.int64)

  def name(ids, place):
    index, ordinal = ids[place] // 2**32, tf.strings.as_string(ids[place] % 2**32)
    path = paths[tf.argmax(tf.cast(tf.equal(indices, index), tf.int32))]
    return tf.strings.join([path, ": record ", ordinal, " (counted from 0)"])

  return name


def _measured(path, compression):
  """Returns the numbers of readable records and of the bytes of their frames."""

  @in_memory.as_written
  def add(state, chunk):
    return state[0] + tf.size(chunk, out_type=tf.int64), state[1] + _bytes_of(chunk)

  chunks = tf.data.TFRecordDataset(path, compression, _READ_BUFFER).ignore_errors().batch(_CHUNK)
  zero = tf.zeros([], tf.int64)
  return chunks.reduce((zero, zero), add)


def _bytes_of(records):
  return tf.reduce_sum(FRAME + tf.cast(tf.strings.length(records), tf.int64))


def _read(path, index, skip, ordinal, byte, end, size, chunk, compression):
  """Makes a dataset of a file's records, chunks of (ids, serialized).

  After the last record it raises an error if the records do not end there.

  Args:
    path: of the file.
    index: of the file.
    skip: number of records to skip.
    ordinal: number of the record at `byte`.
    byte: where to begin.
    end: number of the record to end before; -1 for the end of the file.
    size: bytes of the file's frames.
    chunk: the most records of a chunk.
    compression: "" or "GZIP".
  """
  if compression:
    records = tf.data.TFRecordDataset(path, compression, _READ_BUFFER)
  else:
    # TFRecordDataset has no argument for the byte.
    variant = tf.raw_ops.TFRecordDatasetV2(
      filenames=[path], compression_type="", buffer_size=_READ_BUFFER, byte_offsets=[byte]
    )
    records = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
  wanted = tf.where(end < 0, tf.int64.max, end - ordinal - skip)
  # An empty last chunk, at which `number` checks that it has read all bytes.
  last = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))
  chunks = records.skip(skip).ignore_errors().take(wanted).batch(chunk).concatenate(last)

  @in_memory.as_written
  def refuse():
    found = tf.strings.as_string(_measured(path, compression)[1]) if not compression else "?"
    message = tf.strings.join([path, ": the record at byte ", found, " ", _DAMAGED])
    with tf.control_dependencies([tf.debugging.Assert(False, [message])]):
      return tf.constant(False)

  @in_memory.as_written
  def number(state, serialized):
    offset, first = state
    count = tf.size(serialized, out_type=tf.int64)
    # GZIP keeps 32 bits of the size.
    at_end = tf.equal((offset - size) % 2**32, 0) if compression else tf.equal(offset, size)
    complete = tf.where(end < 0, at_end, tf.equal(first, end))
    with tf.control_dependencies([tf.cond((count > 0) | complete, lambda: True, refuse)]):
      following = offset + _bytes_of(serialized), first + count
    return following, (index * 2**32 + tf.range(first, first + count), serialized)

  numbered = chunks.scan((byte, ordinal + skip), number)
  return numbered.filter(in_memory.as_written(lambda ids, _: tf.size(ids) > 0))
