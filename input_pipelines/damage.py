"""Finds damaged records in TFRecord files, and copies the good records of such files.

Example:
    reports = damage.scan(paths)                # reads all files once
    paths = damage.repair(reports, folder)      # good files, and copies without damaged records
"""

import atexit
import dataclasses
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable, Sequence

import tensorflow as tf

from trainer import errors

from . import records

_HEADER = 12  # bytes: the length of a record and its checksum
_POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed
_MASK = 0xA282EAD8  # TFRecord adds this number to a rotated checksum


@dataclasses.dataclass(frozen=True)
class Report:
  """The good and the damaged parts of a file.

  Attributes:
    path: of the file.
    count: number of good records.
    good: (start, stop) of each readable part, in bytes.
    damaged: the first byte of each damaged part. If the length of a record is damaged, the part may
      have several records.
  """

  path: str
  count: int
  good: list[tuple[int, int]]
  damaged: list[int]

  def __str__(self) -> str:
    places = ", ".join(map(str, self.damaged))
    return f"{self.path}: damaged at byte {places}; {self.count} records are readable"


def scan(paths: Iterable[str]) -> list[Report]:
  """Reads each file once from start to end, and reports on it.

  Raises:
    InputError: TensorFlow cannot open a file.
  """
  return [_scan(path) for path in paths]


def repair(reports: Sequence[Report], folder: str | None = None) -> list[str]:
  """Copies the good parts of damaged files.

  Args:
    reports: what `scan` returns.
    folder: where the copies go; None for a temporary folder that exists as long as this process.

  Returns:
    For each report, the path to read: of the copy, or of the file itself if it has no damage.
  """
  paths = []
  for number, report in enumerate(reports):
    if not report.damaged:
      paths.append(report.path)
      continue
    folder = folder or _folder_until_exit()
    copy = os.path.join(folder, f"{number:05d}-{os.path.basename(report.path)}")
    with tf.io.gfile.GFile(report.path, "rb") as source, tf.io.gfile.GFile(copy, "wb") as target:
      target.write(b"")  # creates the file even if no part is good
      for start, stop in report.good:
        source.seek(start)
        target.write(source.read(stop - start))
    paths.append(copy)
  return paths


def _folder_until_exit():
  """Returns a new folder. A dataset may read it again in each epoch, until the process ends."""
  folder = tempfile.mkdtemp(prefix="repaired_records_")
  atexit.register(_remove, folder, os.getpid())
  return folder


def _remove(folder, owner):
  if os.getpid() == owner:  # a fork inherits the call, while the owner still reads the folder
    shutil.rmtree(folder, ignore_errors=True)


def _scan(path):
  try:
    size = tf.io.gfile.stat(path).length
  except tf.errors.OpError as error:
    raise errors.InputError(
      f"Cannot read the file {path}: {error.message.splitlines()[0]}"
    ) from error
  count, good, damaged = 0, [], []
  start = 0
  with tempfile.TemporaryDirectory() as folder:
    rest = path
    while start < size:
      number, stop = _readable(rest)
      count += number
      if stop:
        good.append((start, start + stop))
      start += stop
      if start >= size:
        break
      damaged.append(start)
      start = _next_record(path, start, size)
      rest = os.path.join(folder, "rest.tfrecord")
      _copy(path, rest, start, size)
  return Report(path, count, good, damaged)


def _readable(path):
  """Returns the numbers of records and bytes before the first damaged record."""
  count = length = 0
  for chunk in tf.data.TFRecordDataset(path).ignore_errors().batch(1024):
    count += int(tf.size(chunk))
    length += int(tf.reduce_sum(tf.strings.length(chunk) + records.FRAME))
  return count, length


def _next_record(path, start, size):
  """Returns the byte after a damaged record.

  If the record's length is damaged too, this is the next byte that looks like the beginning of a
  record.
  """
  with tf.io.gfile.GFile(path, "rb") as file:
    file.seek(start)
    header = file.read(_HEADER)
    length = _length(header)
    if length is not None:
      return min(start + records.FRAME + length, size)
    file.seek(start + 1)
    rest = file.read(size - start - 1)
  for position in range(len(rest) - _HEADER):
    length = _length(rest[position : position + _HEADER])
    if length is not None and position + records.FRAME + length <= len(rest):
      return start + 1 + position
  return size


def _length(header):
  """Returns the length in a record's header; None if its checksum is wrong."""
  if len(header) < _HEADER:
    return None
  length, checksum = struct.unpack("<QI", header)
  return length if masked_checksum(header[:8]) == checksum else None


def masked_checksum(data: bytes) -> int:
  """Returns the checksum in a TFRecord file: CRC-32C, rotated by 15 bits, plus a constant."""
  crc = 0xFFFFFFFF
  for byte in data:
    crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
  crc ^= 0xFFFFFFFF
  return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def _table():
  rows = []
  for byte in range(256):
    for _ in range(8):
      byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    rows.append(byte)
  return rows


_TABLE = _table()


def _copy(path, target, start, stop):
  with tf.io.gfile.GFile(path, "rb") as source, tf.io.gfile.GFile(target, "wb") as out:
    source.seek(start)
    while start < stop:
      piece = source.read(min(stop - start, 1 << 24))
      out.write(piece)
      start += len(piece)
