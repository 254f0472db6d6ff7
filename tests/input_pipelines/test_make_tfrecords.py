"""The command that writes shards: its flags; `test_shard_writer` writes shards."""

import pytest

from input_pipelines import shard_writer
from tests.trainer import mains
from trainer import errors

NAME = "input_pipelines.make_tfrecords"


@pytest.mark.parametrize(("flags", "missing"), [([], "source"), (["--source=folder:/x"], "output")])
def test_the_command_names_the_missing_flag(flags, missing):
  with (
    mains.loaded(NAME, *flags) as main,
    pytest.raises(errors.SettingError, match=f"No --{missing}. Try"),
  ):
    main.main(["make_tfrecords"])


def test_flags_describe_the_source_and_the_shards(monkeypatch):
  calls = []
  monkeypatch.setattr(shard_writer, "parse_source", lambda *source: source)
  monkeypatch.setattr(shard_writer, "write", lambda *arguments: calls.append(arguments))
  flags = ["--source=folder:/x", "--output=gs://b/x", "--channels=1"]
  with mains.loaded(NAME, *flags) as main:
    main.main(["make_tfrecords"])
  assert calls == [(("folder:/x", None, 1), "gs://b/x", 8)]
