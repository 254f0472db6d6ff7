"""shards.json: what it lists is compared with the files."""

import json

import pytest

from input_pipelines import shard_index
from trainer import errors


@pytest.fixture
def shards(tmp_path):
  path = tmp_path / shard_index.shard_name(0, 1)
  path.write_bytes(b"records")
  return [shard_index.entry(str(path), 2)]


def index(shards):
  return shard_index.ShardIndex("made up", 2, {"x": [[], "int64"]}, [], [], shards)


def test_an_index_is_read_as_it_was_written(tmp_path, shards):
  assert shard_index.read(str(tmp_path)) is None
  shard_index.write(str(tmp_path), index([*shards, None]))
  assert shard_index.read(str(tmp_path)) == index([*shards, None])
  assert not index([*shards, None]).is_complete


@pytest.mark.parametrize("text", ["{", json.dumps({"more": 1}), "version"])
def test_a_damaged_index_is_named(tmp_path, shards, text):
  shard_index.write(str(tmp_path), index(shards))
  if text == "version":
    text = (tmp_path / shard_index.NAME).read_text().replace('"version": 1', '"version": 2')
  (tmp_path / shard_index.NAME).write_text(text)
  with pytest.raises(errors.InputError, match=f"Cannot read {tmp_path}/shards.json: "):
    shard_index.read(str(tmp_path))


@pytest.mark.parametrize(
  ("content", "how", "message"),
  [
    (b"records", "full", None),
    (b"record", "size", "has 6 bytes, and shards.json lists 7"),
    (b"Records", "size", None),
    (b"Records", "full", "is damaged: its SHA-256 is not the one in shards.json"),
    (None, "size", "is missing: shards.json lists it"),
    (None, "off", None),
    (b"records", "all", "verify is 'all': expected one of size, full, off"),
  ],
)
def test_shards_are_compared_with_their_entries(tmp_path, shards, content, how, message):
  path = tmp_path / shards[0]["file"]
  path.unlink() if content is None else path.write_bytes(content)
  if message is None:
    shard_index.verify(str(tmp_path), shards, how)
    return
  with pytest.raises(errors.OctetError, match=message):
    shard_index.verify(str(tmp_path), shards, how)
