"""TFRecord files as a stream of records, in an order that comes from a seed, where damage is named
by file and byte.

    stream = records.stream(segments, parse, training=True, shuffle_buffer=10_000)  # (position,
                                                                                    # (id,
                                                                                    # *parse(...)))

A TFRecord file is a row of frames: length (8 bytes), checksum of the length (4), data, checksum of
the data (4). TensorFlow's reader checks both sums and says at which byte one was wrong, but not in
which file. Here each file's reader counts the bytes it was given, and compares them at the end with
the size of the file.
"""

import dataclasses

import tensorflow as tf

from input_pipelines import hosts, randomness
from trainer import errors

FRAME = 16  # bytes of a record that are not its data
_CHUNK = 128  # records parsed in one call, at most
_CHUNK_BYTES = 1 << 20  # of these records together, about
# Records parsed in one call where nothing tells how many a file has, and so how large they are.
_CHUNK_UNKNOWN = 32
_OPEN_FILES = 16  # a fixed number: the order of the records depends on it
_READ_BUFFER = 1 << 20


@dataclasses.dataclass(frozen=True)
class Segment:
  """Records of one file.

  Attributes:
    path: the file.
    index: a number that tells this file from the others of the set, the same on every host.
    skip: records before the first.
    take: how many, or -1 for all until the file's end.
  """

  path: str
  index: int
  skip: int = 0
  take: int = -1


def part(segments, index, parts):
  """Segments of one of so many parts: an even range of all records, whose number each Segment
  must tell (take).
  """
  start, stop = hosts.even_range(sum(segment.take for segment in segments), index, parts)
  found, first = [], 0
  for segment in segments:
    low, high = max(start, first), min(stop, first + segment.take)
    if low < high:
      found.append(dataclasses.replace(segment, skip=segment.skip + low - first, take=high - low))
    first += segment.take
  return found


def namer(segments):
  """A function that names the record at a position of a stream that is not for training, for
  messages.
  """

  def name(position):
    for segment in segments:
      if position < segment.take:
        return f"{segment.path}: record {segment.skip + position} (counted from 0)"
      position -= segment.take
    raise ValueError(f"there is no record {position} after the last")

  return name


def stream(
  segments, parse, *, training, shuffle_buffer=10_000, compression="", element_shard=None, start=0
):
  """A dataset of (position, (id, *parsed)).

  Args:
    segments: list of Segments.
    parse: function of the file's path, int64 [n] the records' numbers in it, and string [n]
      serialized records; it returns a tuple of nests of tensors whose first axis is n.
    training: whether to shuffle files and records and to repeat without end. Otherwise records come
      once, in the order of the files.
    shuffle_buffer: records among which the next is chosen.
    compression: "" or "GZIP". Damage in compressed files is found, but not where.
    element_shard: (index, count) to keep every count-th record only, for hosts that share files
      whose numbers of records are not known.
    start: training: records that come before the first one, as after a run that is continued. Where
      the segments tell their numbers of records, whole epochs are passed over without reading them.

  Returns:
    A tf.data.Dataset; position counts the elements from 0 and goes on counting over the epochs, id
    (int64) tells records apart. Reading it raises tf.errors.InvalidArgumentError with file and byte
    of a damaged record. The order comes from the seed of tf.random.set_seed.

  Raises:
    InputError: there is no record, which would be repeated for ever, or a file cannot be read.
  """
  sizes = [_size(segment.path) for segment in segments]
  if not segments or (training and not _has_record(segments, compression, element_shard)):
    raise errors.InputError(_no_record(segments, sizes, element_shard))
  files = tf.data.Dataset.from_tensor_slices(
    (
      [segment.path for segment in segments],
      tf.constant([segment.index for segment in segments], tf.int64),
      tf.constant([segment.skip for segment in segments], tf.int64),
      tf.constant([segment.take for segment in segments], tf.int64),
      tf.constant(sizes, tf.int64),
    )
  )

  def read(*file):
    return _read(*file, parse, compression)

  def share(records):
    return records if element_shard is None else records.shard(element_shard[1], element_shard[0])

  if not training:
    return share(
      files.interleave(read, cycle_length=1, num_parallel_calls=1, deterministic=True)
    ).enumerate()
  seed = randomness.base_seed()

  def one_epoch(epoch):
    # Of this function's graph: with 0, shuffle would not take a tensor as a seed.
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
  epochs, passed = divmod(start, count) if known else (0, start)
  records = (
    tf.data.Dataset.range(epochs, tf.int64.max).flat_map(one_epoch).skip(passed).enumerate(start)
  )
  # Which tf.data cannot see through flat_map.
  return records.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def _size(path):
  try:
    return tf.io.gfile.stat(path).length
  except tf.errors.OpError as error:
    raise errors.InputError(
      f"The file {path} cannot be read: {error.message.splitlines()[0]}"
    ) from error


def _has_record(segments, compression, element_shard):
  """Whether there is a record for this host, which is looked for where no segment tells."""
  if element_shard is None and any(segment.take > 0 for segment in segments):
    return True
  first = 0 if element_shard is None else element_shard[0]
  paths = [segment.path for segment in segments if segment.take]
  try:
    records = tf.data.TFRecordDataset(paths, compression).skip(first).take(1)
    return bool(records.reduce(0, lambda count, _: count + 1))
  except tf.errors.OpError:
    return True  # a damaged one: what reads it says in which file, and where


def _no_record(segments, sizes, element_shard):
  names = ", ".join(segment.path for segment in segments[:3]) + (", ..." if segments[3:] else "")
  text = (
    f"There is no record to read in {len(segments)} TFRecord files ({sum(sizes)} bytes): {names}"
  )
  if element_shard is not None:
    text += f"; of {element_shard[1]} hosts, each of which needs one, this is number "
    text += f"{element_shard[0]}, counted from 0"
  return f"{text}. Was what wrote them cut off?"


def _read(path, index, skip, take, size, parse, compression):
  """The records of a segment: (id, *parsed), and an error after the last one if that is not
  where the segment ends.
  """
  records = tf.data.TFRecordDataset(path, compression, _READ_BUFFER).ignore_errors()
  wanted = tf.where(take < 0, tf.int64.max, skip + take)
  chunk_size = tf.where(
    take < 0,
    tf.constant(_CHUNK_UNKNOWN, tf.int64),
    tf.clip_by_value(_CHUNK_BYTES * wanted // tf.maximum(size, 1), 1, _CHUNK),
  )
  end = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))
  chunks = records.take(wanted).batch(chunk_size).concatenate(end)
  start = tf.zeros([], tf.int64), tf.zeros([], tf.int64)

  def parse_chunk(state, chunk):
    offset, ordinal = state
    number = tf.size(chunk, out_type=tf.int64)
    complete = tf.equal(offset, size) if not compression else tf.constant(True)
    complete = tf.where(take < 0, complete, tf.equal(ordinal, wanted))
    where = tf.strings.as_string(offset) if not compression else tf.constant("?")
    message = tf.strings.join(
      [
        path,
        ": the record at byte ",
        where,
        " is damaged or cut off, or the file is shorter than its index says",
      ]
    )
    with tf.control_dependencies([tf.debugging.Assert((number > 0) | complete, [message])]):
      following = (
        offset + FRAME * number + tf.reduce_sum(tf.cast(tf.strings.length(chunk), tf.int64)),
        ordinal + number,
      )
    passed = tf.clip_by_value(skip - ordinal, 0, number)
    ordinals = tf.range(ordinal + passed, ordinal + number)
    return following, (index * 2**32 + ordinals, *parse(path, ordinals, chunk[passed:]))

  return chunks.scan(start, parse_chunk).unbatch()
