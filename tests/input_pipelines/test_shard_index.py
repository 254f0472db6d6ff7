"""shards.json: what it lists is compared with the files."""

import hashlib

import pytest

from input_pipelines import shard_index
from trainer import errors


@pytest.fixture
def shards(tmp_path):
  (tmp_path / "data").write_bytes(b"records")
  digest = hashlib.sha256(b"records").hexdigest()
  return [{"file": "data", "count": 2, "bytes": 7, "sha256": digest}]


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
