"""Shards of labelled images: whole or not there, the same however often the writing was cut
short.
"""

import pytest
import tensorflow as tf

from input_pipelines import shard_index, shard_writer
from tests.input_pipelines import tiny_data
from trainer import errors


@pytest.fixture
def source(tmp_path):
  (tmp_path / "set").mkdir()
  tiny_data.image_folder(tmp_path / "set", each=5)
  return shard_writer.parse_source(f"folder:{tmp_path / 'set'}")


def contents(folder):
  return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_shards_and_index(source, tmp_path):
  index = shard_writer.write(source, str(tmp_path / "out"), 3)
  assert index == shard_index.read(str(tmp_path / "out"))
  assert [shard["count"] for shard in index.shards] == [3, 3, 4]
  assert index.count == 10
  assert index.class_names == ["ant", "bee"]
  assert index.is_complete
  assert sorted(contents(tmp_path / "out")) == [
    *(f"data-0000{number}-of-00003.tfrecord" for number in range(3)),
    "shards.json",
  ]
  labels = []
  for shard in index.shards:
    path = str(tmp_path / "out" / shard["file"])
    assert tf.io.gfile.stat(path).length == shard["bytes"]
    assert shard_index.checksum(path) == shard["sha256"]
    records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    examples = [tf.train.Example.FromString(record) for record in records]
    # Each process writes the same bytes.
    assert records == [example.SerializeToString(deterministic=True) for example in examples]
    labels.append([example.features.feature["label"].int64_list.value[0] for example in examples])
  assert sum(tiny_data.joined(labels)) == 5
  assert tiny_data.joined(labels) != sorted(tiny_data.joined(labels))  # the classes are mixed


def test_goes_on_where_it_was_cut_short(source, tmp_path, monkeypatch):
  shard_writer.write(source, str(tmp_path / "whole"), 4)
  written = []
  write_shard = shard_writer._write_shard

  def cut_short(part, path):
    if len(written) == 2:
      (tmp_path / "out" / "data-00002-of-00004.tfrecord.writing").write_bytes(b"half a shard")
      raise KeyboardInterrupt
    written.append(path)
    return write_shard(part, path)

  monkeypatch.setattr(shard_writer, "_write_shard", cut_short)
  with pytest.raises(KeyboardInterrupt):
    shard_writer.write(source, str(tmp_path / "out"), 4)
  assert not shard_index.read(str(tmp_path / "out")).is_complete

  def counted(part, path):
    written.append(path)
    return write_shard(part, path)

  monkeypatch.setattr(shard_writer, "_write_shard", counted)
  shard_writer.write(source, str(tmp_path / "out"), 4)
  assert len(written) == 4
  assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_only_damaged_shards_are_written_again(source, tmp_path):
  out = tmp_path / "out"
  shard_writer.write(source, str(out), 3)
  before = contents(out)
  times = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}
  (out / "data-00001-of-00003.tfrecord").write_bytes(b"")
  shard_writer.write(source, str(out), 3)
  assert contents(out) == before
  assert [
    path.name
    for path in sorted(out.glob("*.tfrecord"))
    if path.stat().st_mtime_ns != times[path.name]
  ] == ["data-00001-of-00003.tfrecord"]


def test_tfds(tmp_path):
  tiny_data.tfds_set(
    tmp_path / "tfds", "tiny", "1.0.0", {"train": range(10), "test": range(20, 25)}
  )
  names = ["class 0", "class 1", "class 2"]
  for text, count in (
    ("tfds:tiny", 10),
    ("tfds:tiny:train[:5]", 5),
    ("tfds:tiny:test", 5),
    ("tfds:tiny:1.0.0", 10),
  ):
    source = shard_writer.parse_source(text, str(tmp_path / "tfds"))
    whole = source.part(0, 1)
    assert (whole.count, whole.image_shape, list(source.class_names)) == (count, (8, 8, 3), names)
    if text.endswith("[:5]"):
      index = shard_writer.write(source, str(tmp_path / "out"), 2)
      assert (index.count, index.image_shape, index.class_names) == (5, [8, 8, 3], names)


def test_another_set_in_the_folder(source, tmp_path):
  shard_writer.write(source, str(tmp_path / "out"), 3)
  with pytest.raises(
    errors.SettingError,
    match="has 10 examples of folder:.*in 3 shards; the flags select 10 of .* in 2: choose",
  ):
    shard_writer.write(source, str(tmp_path / "out"), 2)


def test_a_damaged_image_is_named(source, tmp_path):
  (tmp_path / "set" / "bee" / "2.png").write_bytes(tiny_data.png(3)[:50])
  with pytest.raises(errors.InputError, match=r"bee/2\.png is damaged"):
    shard_writer.write(source, str(tmp_path / "out"), 1)
  assert not list((tmp_path / "out").glob("*.tfrecord"))


def test_settings(source, tmp_path):
  with pytest.raises(errors.SettingError, match="--shards=11 for 10 examples"):
    shard_writer.write(source, str(tmp_path / "out"), 11)
  for text in ("tiny", "tfds:", "folder:", "zip:a"):
    with pytest.raises(
      errors.SettingError, match="expected tfds:NAME, tfds:NAME:SPLIT or folder:PATH"
    ):
      shard_writer.parse_source(text)
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.OutputError, match=r"Cannot write .*file/out \(--output\)"):
    shard_writer.write(source, str(tmp_path / "file" / "out"), 1)
