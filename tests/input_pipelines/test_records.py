"""Streams of records: order, shares of hosts, damage."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import records
from tests import long
from tests.input_pipelines import tiny_data
from trainer import errors

SIZES = (40, 3, 70, 33)


@pytest.fixture
def paths(tmp_path):
  """Four files; record i of all is its number, as text."""
  number, paths = 0, []
  for index, size in enumerate(SIZES):
    paths.append(str(tmp_path / f"{index}.tfrecord"))
    tiny_data.tfrecord(paths[-1], [str(number + i).encode() for i in range(size)])
    number += size
  return paths


def parse(path, ordinals, serialized):
  del path
  return tf.strings.to_number(serialized, tf.int64), ordinals


def read(segments, count=None, **settings):
  dataset = records.stream(segments, parse, **{"training": False, **settings})
  if count is not None:
    dataset = dataset.take(count)
  return list(dataset.as_numpy_iterator())


def segments(paths, counts=None):
  return [
    records.Segment(path, index, 0, -1 if counts is None else counts[index])
    for index, path in enumerate(paths)
  ]


def test_in_order_once_with_position_and_ids(paths):
  elements = read(segments(paths))
  assert [value for _, (_, value, _) in elements] == list(range(sum(SIZES)))
  assert [position for position, _ in elements] == list(range(sum(SIZES)))
  assert len({identity for _, (identity, _, _) in elements}) == sum(SIZES)
  assert [ordinal for _, (_, _, ordinal) in elements][38:45] == [38, 39, 0, 1, 2, 0, 1]


def test_a_parse_function_may_decide_by_a_tensor(paths):
  """AutoGraph converts the user's function, and none of the module's."""

  def parse(path, ordinals, serialized):
    if tf.strings.regex_full_match(path, ".*1.tfrecord"):
      ordinals = -ordinals
    return (ordinals,)

  dataset = records.stream(segments(paths[:2]), parse, training=False)
  found = [int(ordinal) for _, (_, ordinal) in dataset]
  assert found == [*range(SIZES[0]), *(-each for each in range(SIZES[1]))]


def test_training_shuffles_and_gives_each_once_an_epoch(paths):
  tf.random.set_seed(3)
  total = sum(SIZES)
  values = [value for _, (_, value, _) in read(segments(paths), 3 * total, training=True)]
  epochs = [values[start : start + total] for start in (0, total, 2 * total)]
  for epoch in epochs:
    assert sorted(epoch) == list(range(total))
  assert epochs[0] != epochs[1] != epochs[2]
  assert abs(np.corrcoef(epochs[0], np.arange(total))[0, 1]) < 0.4


@pytest.mark.parametrize("buffer", [1, 100])
def test_files_and_records_are_in_another_order_in_each_epoch(paths, buffer):
  """Files alone where the buffer is of one record; records alone where there is one file."""
  tf.random.set_seed(3)
  files = segments(paths) if buffer == 1 else segments(paths[2:3])
  size = sum(SIZES) if buffer == 1 else SIZES[2]
  values = [
    value for _, (_, value, _) in read(files, 3 * size, training=True, shuffle_buffer=buffer)
  ]
  assert len({tuple(values[start : start + size]) for start in range(0, 3 * size, size)}) == 3


@pytest.mark.parametrize("other", [3, 4])
def test_the_order_is_the_seeds(paths, other):
  orders = []
  for seed in (3, other):
    tf.random.set_seed(seed)
    orders.append(
      [value for _, (_, value, _) in read(segments(paths), 60, training=True, shuffle_buffer=20)]
    )
  assert (orders[0] == orders[1]) == (other == 3)


@pytest.mark.parametrize("parts", [2, 5])
def test_parts_are_even_and_complete(paths, parts):
  shares = [
    [value for _, (_, value, _) in read(records.part(segments(paths, SIZES), index, parts))]
    for index in range(parts)
  ]
  assert sorted(tiny_data.joined(shares)) == list(range(sum(SIZES)))
  sizes = [len(share) for share in shares]
  assert max(sizes) - min(sizes) <= 1


def test_parts_of_parts_start_where_they_should(paths):
  half = records.part(segments(paths, SIZES), 1, 2)
  quarters = [value for index in (0, 1) for _, (_, value, _) in read(records.part(half, index, 2))]
  assert quarters == list(range(sum(SIZES) // 2, sum(SIZES)))


def test_every_nth_record(paths):
  shares = [
    [value for _, (_, value, _) in read(segments(paths), element_shard=(index, 3))]
    for index in range(3)
  ]
  assert sorted(tiny_data.joined(shares)) == list(range(sum(SIZES)))
  assert shares[1][:3] == [1, 4, 7]


@pytest.mark.parametrize("known", long.except_for([False], [True, False]))
def test_parts_and_damage_beyond_the_first_chunk(tmp_path, known):
  path, frame = str(tmp_path / "a.tfrecord"), 16 + 4
  tiny_data.tfrecord(path, [f"{number:04}".encode() for number in range(600)])
  whole = records.Segment(path, 0, 0, 600)
  halves = [records.Segment(path, 0, skip, 300 if known or not skip else -1) for skip in (0, 300)]
  found = [read([part]) for part in halves]
  assert [value for part in found for _, (_, value, _) in part] == list(range(600))
  assert [ordinal for _, (_, _, ordinal) in found[1]] == list(range(300, 600))
  assert {identity for part in found for _, (identity, _, _) in part} == {
    identity for _, (identity, _, _) in read([whole])
  }
  tiny_data.flip_bit(path, 500 * frame + 12)
  with pytest.raises(
    tf.errors.InvalidArgumentError,
    match=r"a\.tfrecord: the record at byte "
    rf"{500 * frame} is damaged",
  ):
    read([halves[1]])
  assert len(read([halves[0]])) == 300


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("size", "least", "most"), [(20, 32, 128), (200_000, 1, 32)])
def test_chunks_are_not_too_large_for_memory(tmp_path, known, size, least, most):
  path = str(tmp_path / "a.tfrecord")
  tiny_data.tfrecord(path, [bytes(size)] * 200)

  def count(path, ordinals, serialized):
    del path
    return ordinals, tf.fill([tf.size(serialized)], tf.size(serialized))

  first = next(
    iter(records.stream([records.Segment(path, 0, 0, 200 if known else -1)], count, training=False))
  )[1][2]
  assert least <= first <= most
  assert first * size <= (1 << 20 if known else 32 * size)


def test_gzip(tmp_path):
  path = str(tmp_path / "a.gz")
  with tf.io.TFRecordWriter(path, "GZIP") as writer:
    for number in range(50):
      writer.write(str(number).encode())
  assert [value for _, (_, value, _) in read(segments([path]), compression="GZIP")] == list(
    range(50)
  )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("take", [-1, SIZES[2]])
def test_damage_is_named_by_file_and_byte(paths, training, take):
  frame = 16 + 2  # two digits: the file's records are 43 to 112
  tiny_data.flip_bit(paths[2], 5 * frame + 12)
  damaged = [
    records.Segment(path, index, 0, -1 if take < 0 else SIZES[index])
    for index, path in enumerate(paths)
  ]
  with pytest.raises(
    tf.errors.InvalidArgumentError,
    match=r"2\.tfrecord: the record at byte "
    rf"{5 * frame} is damaged",
  ):
    read(damaged, 1000, training=training)


def test_a_cut_off_file_is_named(paths):
  path = pathlib.Path(paths[0])
  content = path.read_bytes()
  path.write_bytes(content[:-5])
  with pytest.raises(
    tf.errors.InvalidArgumentError,
    match=r"0\.tfrecord: the record at byte "
    rf"{len(content) - 18} is damaged or "
    r"cut off",
  ):
    read(segments(paths))


def test_a_missing_file_is_named(paths):
  with pytest.raises(errors.InputError, match="Cannot read the file nowhere.tfrecord"):
    read(segments(["nowhere.tfrecord"]))


def test_names_of_records(paths):
  name = records.record_namer(records.part(segments(paths, SIZES), 1, 2))
  assert name(0).startswith(paths[2] + ": record 30 ")
  assert name(40).startswith(paths[3] + ": record 0 ")


@pytest.mark.parametrize("known", [True, False])
def test_goes_on_at_its_place(paths, known):
  """In the first epoch, at the beginning of the third, and in it."""
  files = segments(paths, SIZES if known else None)

  def examples(start, count):
    tf.random.set_seed(0)
    elements = read(files, count, training=True, shuffle_buffer=20, start=start)
    return [(int(position), int(value)) for position, (_, value, _) in elements]

  third = 2 * sum(SIZES)
  whole = examples(0, third + 30 + 40)
  assert [position for position, _ in whole] == list(range(len(whole)))
  for start in (7, third, third + 30):
    assert examples(start, 40) == whole[start : start + 40]


def test_goes_on_without_reading_the_epochs_before(paths):
  files = segments(paths, SIZES)
  assert len(read(files, 5, training=True, start=10**9 * sum(SIZES))) == 5


def test_training_is_known_to_be_endless(paths):
  assert (
    records.stream(segments(paths), parse, training=True).cardinality()
    == tf.data.INFINITE_CARDINALITY
  )


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_training_on_no_record_is_an_error_before_it_is_read(tmp_path, compression):
  names = [str(tmp_path / f"{name}.tfrecord") for name in "abcd"]
  for name in names:
    tf.io.TFRecordWriter(name, compression).close()
  with pytest.raises(
    errors.InputError, match=r"no record to read in 4 TFRecord files.*a\.tfrecord"
  ):
    read(segments(names), 1, training=True, compression=compression)
  assert read(segments(names), compression=compression) == []
  with pytest.raises(errors.InputError, match="no record to read in 0 TFRecord files"):
    read([])


def test_one_record_is_enough_for_one_host_alone(tmp_path):
  names = [str(tmp_path / f"{name}.tfrecord") for name in "ab"]
  tiny_data.tfrecord(names[0], [])
  tiny_data.tfrecord(names[1], [b"7"])
  settings = dict(training=True, element_shard=(0, 2))
  assert [value for _, (_, value, _) in read(segments(names), 2, **settings)] == [7, 7]
  with pytest.raises(errors.InputError, match="of 2 hosts.*this is number 1"):
    read(segments(names), 1, training=True, element_shard=(1, 2))
