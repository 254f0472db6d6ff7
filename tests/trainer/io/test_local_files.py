"""Folders and files of a command: whole, or not there and a sentence that names the flag."""

import pytest

from trainer import errors
from trainer.io import local_files


def test_a_file_is_replaced_as_a_whole(tmp_path):
  path = tmp_path / "a.csv"
  for content in ("1,2\r\n", b"\x89PNG"):
    local_files.write(str(path), content, "--output")
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
  assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_former_file_alone(tmp_path, monkeypatch):
  path = tmp_path / "a.csv"
  path.write_text("former")

  def full(*_):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(local_files.os, "replace", full)
  with pytest.raises(errors.OutputError, match="No space left"):
    local_files.write(str(path), "new", "--output")
  assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
  assert path.read_text() == "former"


def test_what_cannot_be_written_names_the_flag(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.OutputError, match=r"Cannot write .*file/a\.csv \(--output\): "):
    local_files.write(str(tmp_path / "file" / "a.csv"), "", "--output")
  with pytest.raises(errors.OutputError, match=r"Cannot make the folder .*file \(--sweep_dir\): "):
    local_files.make_folder(str(tmp_path / "file"), "--sweep_dir")
