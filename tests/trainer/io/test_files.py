"""A file is there as a whole, or not at all."""

import os
import socket
import subprocess

import pytest
import tensorflow as tf

from trainer import errors
from trainer.io import files


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


def test_a_text_is_replaced(tmp_path):
  path = os.path.join(tmp_path, "config.gin")
  for text in ("X = 'é'\n", "Y = 'é'\n"):
    files.write(path, text)
    with open(path, encoding="utf-8") as file:
      assert file.read() == text


def test_a_text_that_cannot_be_written_is_told(tmp_path):
  with pytest.raises(
    errors.OutputError, match=r"Cannot write .*config\.gin \(--model_dir\): .*No such file"
  ):
    files.write(os.path.join(tmp_path, "gone", "config.gin"), "")


def test_other_file_systems():
  with files.write_atomically("ram://files/a.txt") as file:
    file.write("text")
  with tf.io.gfile.GFile("ram://files/a.txt") as file:
    assert file.read() == "text"


def name_of_a_dead_process():
  """What it was writing has this name at its end."""
  process = subprocess.Popen(["true"])
  process.wait()
  return f"{socket.gethostname()}-{process.pid}-{process.pid}"


def test_what_killed_processes_were_writing_is_removed(tmp_path):
  dead = name_of_a_dead_process()
  (tmp_path / f"a.json.writing-{dead}").touch()
  (tmp_path / f".writing-1700000000-{dead}" / "variables").mkdir(parents=True)
  own = tmp_path / f"b.json.writing-{files.writer()}"
  other = tmp_path / "c.json.writing-elsewhere-1-1"
  unknown = tmp_path / ".writing-1700000000"
  for path in (own, other, unknown):
    path.touch()
  files.remove_litter(str(tmp_path))
  assert sorted(tmp_path.iterdir()) == sorted([own, other, unknown])


@pytest.mark.parametrize("name", ["a[b]", "a*b", "a?b", "a\\b", "[", "a"])
def test_a_folders_name_is_no_pattern(name, tmp_path):
  (tmp_path / "aXb").mkdir()
  (tmp_path / "aXb" / "3.txt").touch()
  folder = tmp_path / name
  folder.mkdir()
  for file in ("2.txt", "1.txt", "1.csv"):
    (folder / file).touch()
  assert files.matching(str(folder), "*.txt") == [str(folder / "1.txt"), str(folder / "2.txt")]
  assert files.matching(str(folder / "none"), "*") == []


@pytest.mark.parametrize("name", ["a[b]", "a*b", "a?b", "a\\b", "[", "a"])
def test_a_plain_path_leads_to_the_same_file(name, tmp_path):
  (tmp_path / name).mkdir()
  (tmp_path / name / "1.txt").write_text("one")
  with files.plain_path(str(tmp_path / name / "1.txt")) as plain:
    assert tf.io.gfile.glob(plain) == [plain]
    with open(plain) as file:
      assert file.read() == "one"


@pytest.mark.parametrize(
  "error, expected",
  [
    (OSError(28, "No space left on device"), "No space left on device"),
    (
      tf.errors.UnknownError(None, None, "{{node x}} /a/b; Disk quota exceeded"),
      "Disk quota exceeded",
    ),
    (
      tf.errors.UnknownError(None, None, "/a; Read-only file system\n\tmore [Op:Write]"),
      "Read-only file system",
    ),
    (tf.errors.UnknownError(None, None, "/a; No space [Op:SaveV2]"), "No space"),
  ],
)
def test_the_reason_of_an_error(error, expected):
  assert files.reason(error) == expected


def test_numbers_grow_whatever_the_clock_says():
  assert files.next_number([], lambda: 1000.9) == 1000
  assert files.next_number([30, 1000], lambda: 1000.9) == 1001
  assert files.next_number([5000], lambda: 1000.9) == 5001


def test_file_of_this_process_sorts_after_earlier_ones(tmp_path):
  folder, made = str(tmp_path), []
  (tmp_path / "metrics-by-hand.jsonl").touch()
  for time in (1700000000.0, 1600000000.0, 1800000000.0, 1700000000.0):
    made.append(files.own_path(folder, "metrics-*.jsonl", lambda time=time: time))
    open(made[-1], "w").close()
  assert made == sorted(made)
  numbers = [os.path.basename(path).split("-")[1] for path in made]
  assert numbers == ["1700000000", "1700000001", "1800000000", "1800000001"]


def test_a_path_is_shown_as_one_would_write_it(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert files.shown(str(tmp_path / "out" / "digits")) == "out/digits"
  assert files.shown("gs://bucket/digits") == "gs://bucket/digits"
  assert files.shown("/elsewhere/digits") == "/elsewhere/digits"
