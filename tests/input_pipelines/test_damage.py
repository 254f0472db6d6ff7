"""Damaged TFRecord files: what is found, what is saved."""

import atexit
import os
import pathlib
import struct

import pytest
import tensorflow as tf

from input_pipelines import damage
from tests.input_pipelines import tiny_data
from trainer import errors

CONTENTS = [bytes([65 + number]) * (20 + number) for number in range(10)]
STARTS = [sum(16 + len(content) for content in CONTENTS[:number]) for number in range(11)]


@pytest.fixture
def path(tmp_path):
  path = tmp_path / "a.tfrecord"
  tiny_data.tfrecord(path, CONTENTS)
  return path


def harm(path, *places):
  for place in places:
    tiny_data.flip_bit(path, place)


def saved(report):
  return [record.numpy() for record in tf.data.TFRecordDataset(damage.repair([report]))]


def test_checksums_are_those_of_tensorflow(path):
  content = path.read_bytes()
  for start, data in zip(STARTS, CONTENTS, strict=False):
    length, checksum = struct.unpack("<QI", content[start : start + 12])
    assert length == len(data)
    assert damage.masked_checksum(content[start : start + 8]) == checksum


def test_a_whole_file(path):
  (report,) = damage.scan([str(path)])
  assert (report.count, report.damaged) == (10, [])
  assert damage.repair([report]) == [str(path)]


def test_damaged_data_costs_that_record(path):
  harm(path, STARTS[3] + 14, STARTS[7] + 12)
  (report,) = damage.scan([str(path)])
  assert report.damaged == [STARTS[3], STARTS[7]]
  assert report.count == 8
  assert saved(report) == [
    content for number, content in enumerate(CONTENTS) if number not in (3, 7)
  ]
  assert f"a.tfrecord: damaged at byte {STARTS[3]}, {STARTS[7]}; 8 records" in str(report)


def test_a_damaged_length_costs_that_record(path):
  harm(path, STARTS[4] + 2)
  (report,) = damage.scan([str(path)])
  assert report.damaged == [STARTS[4]]
  assert saved(report) == CONTENTS[:4] + CONTENTS[5:]


@pytest.mark.parametrize("first", [0, 9])
def test_at_either_end(path, first):
  harm(path, STARTS[first] + 13)
  (report,) = damage.scan([str(path)])
  assert saved(report) == CONTENTS[1:] if first == 0 else CONTENTS[:9]


@pytest.mark.parametrize("kept", [STARTS[6] + 5, STARTS[6] + 20])
def test_a_cut_off_file(path, kept):
  path.write_bytes(path.read_bytes()[:kept])
  (report,) = damage.scan([str(path)])
  assert report.damaged == [STARTS[6]]
  assert saved(report) == CONTENTS[:6]


def test_no_record_file_at_all(path):
  path.write_bytes(b"<html>" * 50)
  (report,) = damage.scan([str(path)])
  assert (report.count, report.damaged, report.good) == (0, [0], [])
  assert saved(report) == []


def test_copies_are_removed_when_their_process_exits(path, monkeypatch):
  calls = []
  monkeypatch.setattr(atexit, "register", lambda *call: calls.append(call))
  harm(path, STARTS[3] + 14)
  [copy] = map(pathlib.Path, damage.repair(damage.scan([str(path)])))
  [(remove, *arguments)] = calls
  with monkeypatch.context() as fork:
    fork.setattr(os, "getpid", lambda: -1)
    remove(*arguments)
  assert copy.exists()
  remove(*arguments)
  assert not copy.parent.exists()


def test_no_file():
  with pytest.raises(errors.InputError, match="Cannot read the file nowhere"):
    damage.scan(["nowhere"])
