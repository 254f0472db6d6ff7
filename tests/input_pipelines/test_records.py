"""Streams of records: order, shares of hosts, damage."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import records
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


def parse(name, serialized):
  names = tf.map_fn(name, tf.range(tf.size(serialized, out_type=tf.int64)), tf.string)
  return tf.strings.to_number(serialized, tf.int64), names


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
  places = [(0, 38), (0, 39), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
  assert [name.decode() for _, (_, _, name) in elements][38:45] == [
    f"{paths[index]}: record {ordinal} (counted from 0)" for index, ordinal in places
  ]


def test_a_parse_function_may_decide_by_a_tensor(paths):
  """AutoGraph converts the user's function, and none of the module's."""

  def parse(name, serialized):
    numbers = tf.strings.to_number(serialized, tf.int64)
    if tf.strings.regex_full_match(name(tf.constant(0, tf.int64)), ".*1.tfrecord.*"):
      numbers = -numbers
    return (numbers,)

  found = [
    int(number)
    for path in paths[:2]
    for _, (_, number) in records.stream(segments([path]), parse, training=False)
  ]
  assert found == [*range(SIZES[0]), -40, -41, -42]


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


def test_parts_and_damage_beyond_the_first_chunk(tmp_path):
  path, frame = str(tmp_path / "a.tfrecord"), 16 + 4
  tiny_data.tfrecord(path, [f"{number:04}".encode() for number in range(600)])
  whole = records.Segment(path, 0, 0, 600)
  halves = [records.Segment(path, 0, skip, 300) for skip in (0, 300)]
  found = [read([part]) for part in halves]
  assert [value for part in found for _, (_, value, _) in part] == list(range(600))
  assert found[1][0][1][2].decode() == f"{path}: record 300 (counted from 0)"
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


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("size", [20, 200_000])
def test_chunks_are_not_too_large_for_memory(tmp_path, training, size):
  path = str(tmp_path / "a.tfrecord")
  tiny_data.tfrecord(path, [bytes(size)] * 300)

  def count(name, serialized):
    del name
    return (tf.fill([tf.size(serialized)], tf.size(serialized)),)

  [(_, (_, number))] = records.stream(segments([path]), count, training=training).take(1)
  assert number == {20: 256, 200_000: 5}[size]


def test_gzip(tmp_path):
  path = str(tmp_path / "a.gz")
  with tf.io.TFRecordWriter(path, "GZIP") as writer:
    for number in range(50):
      writer.write(str(number).encode())
  assert [value for _, (_, value, _) in read(segments([path]), compression="GZIP")] == list(
    range(50)
  )
  assert records.count(path, "GZIP") == 50


@pytest.mark.parametrize("harm", ["cut off", "damaged"])
def test_a_damaged_gzip_file_is_named(tmp_path, harm):
  """TensorFlow takes the first part of a cut off file for the whole."""
  path = tmp_path / "a.gz"
  with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
    for number in range(5000):
      writer.write(f"{number:050}".encode())
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 8
  path.write_bytes(content if harm == "damaged" else content[: len(content) // 2])
  with pytest.raises(tf.errors.InvalidArgumentError, match=r"a\.gz: the record at byte \? is dam"):
    read(segments([str(path)]), compression="GZIP")
  with pytest.raises(errors.InputError, match=r"a\.gz: the record at byte \? is damaged"):
    records.count(str(path), "GZIP")


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
@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_goes_on_at_its_place(tmp_path, monkeypatch, known, compression):
  """At the beginning, the end and the middle of files, chunks, windows and epochs."""
  monkeypatch.setattr(records, "_CHUNK", 4)
  monkeypatch.setattr(records, "_OPEN_FILES", 3)
  sizes, total = (9, 0, 21, 4, 1, 8, 13, 5), 61
  numbers, files = iter(range(total)), []
  for index, size in enumerate(sizes):
    files.append(str(tmp_path / str(index)))
    with tf.io.TFRecordWriter(files[-1], compression) as writer:
      for number in [next(numbers) for _ in range(size)]:
        writer.write(str(number).encode())
  parts = segments(files, sizes if known else None)
  if known:  # the middle of the third file to the end of the last
    parts, total = records.part(parts, 1, 2), 31

  def examples(start, count):
    tf.random.set_seed(0)
    settings = dict(shuffle_buffer=10, start=start, compression=compression)
    dataset = records.stream(parts, parse, training=True, **settings).take(count)
    return [(int(position), int(value)) for position, (_, value, _) in dataset]

  whole = examples(0, 4 * total)
  assert [position for position, _ in whole] == list(range(len(whole)))
  for start in (1, 10, 19, 24, total - 1, total, 2 * total + 25):
    assert examples(start, 20) == whole[start : start + 20], start


def test_batches_of_any_size_have_one_order(paths):
  """So a step takes the same examples on any number of cores."""

  def values(batch_size):
    tf.random.set_seed(0)
    settings = dict(training=True, shuffle_buffer=30)
    batches = records.batches(segments(paths), parse, batch_size, **settings)
    assert batches.element_spec[0].shape == [batch_size]
    return np.concatenate([values for _, values, _ in batches.take(360 // batch_size)]).tolist()

  assert values(4) == values(18) == values(360)


def test_a_resumed_training_reads_no_data_before_its_place(tmp_path):
  path = str(tmp_path / "a.tfrecord")
  tiny_data.tfrecord(path, [bytes(10)] * 1000)
  tiny_data.flip_bit(path, 100 * 26 + 12)
  dataset = records.stream(
    segments([path]),
    lambda name, serialized: (serialized,),
    training=True,
    shuffle_buffer=300,
    start=300,
  )
  assert len(list(dataset.take(300))) == 300


def test_tensorflow_logs_no_error_of_a_resumed_training(tmp_path, capfd):
  path = str(tmp_path / "a.tfrecord")
  tiny_data.tfrecord(path, [b"7"] * 3000)
  assert len(read(segments([path]), 100, training=True, shuffle_buffer=700, start=1507)) == 100
  assert "RefCount" not in capfd.readouterr().err


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
