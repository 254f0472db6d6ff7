"""A file is there as a whole, or not at all."""

import pytest
import tensorflow as tf

from trainer import files


def test_a_file_appears_at_the_end(tmp_path):
  path = tmp_path / "a.json"
  with files.write_atomically(str(path)) as file:
    file.write("new")
    assert not path.exists()
  assert path.read_text() == "new"
  assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


def write_half(path, error):
  with files.write_atomically(str(path)) as file:
    file.write("half of the n")
    raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_file_that_was_there_and_no_other(tmp_path, error):
  path = tmp_path / "a.json"
  path.write_text("old")
  with pytest.raises(error):
    write_half(path, error)
  assert path.read_text() == "old"
  assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


def test_an_empty_file_is_a_file(tmp_path):
  with files.write_atomically(str(tmp_path / "empty"), "wb"):
    pass
  assert (tmp_path / "empty").read_bytes() == b""


def test_other_file_systems():
  with files.write_atomically("ram://files/a.txt") as file:
    file.write("text")
  with tf.io.gfile.GFile("ram://files/a.txt") as file:
    assert file.read() == "text"
