"""Stand-in data for a new project, the same each time.

    files("table")      {"data/train.csv": b"age,job,hours,bought...", "data/test.csv": ...}

Each has something to learn and some noise, like real data.
"""

import collections
import re
import struct
import zlib
from collections.abc import Callable

import numpy as np

_IMAGES, _SIZE = 60, 32  # Images of each class, and their pixels in each direction.
_TRAIN, _TEST = 300, 100  # Rows of a table, texts.

_GOOD = ("good", "great", "moving", "funny", "clever")
_BAD = ("bad", "dull", "slow", "silly", "flat")


def files(kind: str) -> dict[str, bytes]:
  """Returns path in the project → content, for a kind of project."""
  return _MAKERS[kind](np.random.default_rng(0))


def _images(random):
  """Circles, squares and stripes, each of a colour and at a place of its own."""
  rows, columns = np.mgrid[:_SIZE, :_SIZE]
  made = {}
  for kind in ("circles", "squares", "stripes"):
    for number in range(_IMAGES):
      middle, radius = random.integers(11, _SIZE - 11, 2), random.integers(6, 10)
      distances = np.abs(rows - middle[0]), np.abs(columns - middle[1])
      inside = {
        "circles": np.hypot(*distances) < radius,
        "squares": np.maximum(*distances) < radius,
        "stripes": (rows + columns) // (radius // 2) % 2 == 0,
      }[kind]
      dark, light = random.integers(0, 100, 3), random.integers(150, 250, 3)
      pixels = np.where(inside[:, :, None], light, dark) + random.integers(-5, 6, (_SIZE, _SIZE, 3))
      made[f"data/{kind}/{number:02d}.png"] = _png(np.clip(pixels, 0, 255).astype(np.uint8))
  return made


def _png(pixels):
  """Encodes uint8 [height, width, 3] as PNG: W3C, Portable Network Graphics, third edition."""

  def chunk(kind, content):
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

  height, width, _ = pixels.shape
  header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB.
  lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # Each without a filter.
  parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
  return b"\x89PNG\r\n\x1a\n" + parts


def _customers(random):
  """Buyers: depends on age, job and hours; some values are missing."""

  def row(_):
    age, hours = random.integers(18, 80), random.integers(10, 60)
    job = random.choice(["baker", "cook", "smith", "teacher"])
    score = (age - 45) / 15 + (hours - 35) / 20 + {"smith": 1.5, "cook": -1.5}.get(job, 0)
    bought = "yes" if score + random.normal(0, 0.5) > 0 else "no"
    kept = random.random(3) > 0.05
    shown = [
      str(value) if keep else "" for value, keep in zip((age, job, hours), kept, strict=True)
    ]
    return ",".join([*shown, bought])

  return _lines("csv", "age,job,hours,bought", row)


def _houses(random):
  """The price in 100,000: depends on area, rooms and year."""

  def row(_):
    area, year = random.integers(40, 220), random.integers(1920, 2025)
    rooms = max(1, area // 30 + random.integers(-1, 2))
    price = 0.4 + area * 0.02 + rooms * 0.1 + (year - 1920) * 0.01 + random.normal(0, 0.2)
    return f"{area},{rooms},{year},{max(price, 0.3):.2f}"

  return _lines("csv", "area,rooms,year,price", row)


def _reviews(random):
  """Labels 1 and 0, texts with some words that indicate the label, and the vocabulary."""

  def row(number):
    label = number % 2
    first, second = random.choice(_GOOD if label else _BAD, 2, replace=False)
    what = random.choice(["film", "story", "book", "play"])
    form = random.choice(["A {} {}, and {}.", "What a {} {}! {}.", "The {} {} was {}."])
    return f"{label}\t{form.format(first, what, second)}"

  made = _lines("tsv", "label\ttext", row)
  texts = made["data/train.tsv"].decode().lower().partition("\n")[2]
  words = collections.Counter(re.findall(r"[a-z]+|[^\w\s]", texts))
  vocabulary = sorted(words, key=lambda word: (-words[word], word))
  return made | {"data/vocabulary.txt": "".join(f"{word}\n" for word in vocabulary).encode()}


def _lines(ending: str, head: str, row: Callable[[int], str]) -> dict[str, bytes]:
  """Returns a file for the training and one for the test, with a line of head and rows."""
  return {
    f"data/{name}.{ending}": "\n".join([head, *map(row, range(count)), ""]).encode()
    for name, count in (("train", _TRAIN), ("test", _TEST))
  }


_MAKERS = {
  "images": _images,
  "keras": _images,
  "regression": _houses,
  "table": _customers,
  "text": _reviews,
}
