"""Text for people: sizes in bytes, lines that fit a terminal, and tables."""

import itertools
import os
import textwrap
from collections.abc import Collection, Sequence
from typing import IO

# Columns that a line on a terminal leaves free. The terminal echoes typed characters beside the
# line, as ^C^C: it would break a word of a full line, and could not erase a wrapped bar.
ROOM = 5


class Fields:
  """A line of fields; a narrow terminal omits some.

  Args:
    fields: (rank, text) of each field, in the order of the line. The field with the highest rank
      goes first, a field of rank 0 never.
  """

  def __init__(self, fields: Sequence[tuple[int, str]]) -> None:
    self._fields = fields

  def __str__(self) -> str:
    return "  ".join(text for _, text in self._fields)

  def fit(self, width: int) -> str:
    """Returns the line with as many fields as `width` characters hold."""
    fields = self._fields
    while len(str(Fields(fields))) > width and any(rank for rank, _ in fields):
      highest = max(rank for rank, _ in fields)
      fields = [field for field in fields if field[0] != highest]
    return str(Fields(fields))


def terminal_columns(file: IO[str]) -> int | None:
  """Returns the width of the terminal that a file is, or None if it is none."""
  if not file.isatty():
    return None
  # A terminal of unknown size reports 0 columns.
  return os.get_terminal_size(file.fileno()).columns or None


def fold(text: str, width: int, indent: int) -> str:
  """Returns text with long lines continued below themselves.

  Text to copy stays in one piece: words, such as paths, stay whole, and so do indented lines
  (commands, and rows of a table).

  Args:
    text: one line or several.
    width: the most characters of a line.
    indent: the indentation of a continued line.
  """
  wrapper = textwrap.TextWrapper(
    width,
    subsequent_indent=" " * indent,
    break_long_words=False,
    break_on_hyphens=False,
    expand_tabs=False,
    replace_whitespace=False,
  )
  return "\n".join(
    line if len(line) <= width or line.startswith(" ") else wrapper.fill(line)
    for line in text.split("\n")
  )


def size(count: float) -> str:
  """Returns a number of bytes on a disk, in powers of 1,000: "12 B", "3.45 kB", "6.71 MB"."""
  for unit in ("B", "kB", "MB"):
    if count < 1000:
      return f"{count:.3g} {unit}"
    count /= 1000
  return f"{count:.3g} GB"


def memory_size(count: float) -> str:
  """Returns a number of bytes of memory, in powers of 1,024: "0.1 KiB", "5.25 MiB", "15.48 GiB"."""
  for unit, name in ((2**30, "GiB"), (2**20, "MiB")):
    if count >= unit:
      return f"{count / unit:,.2f} {name}"
  return f"{count / 2**10:,.1f} KiB"


def three_digits(value: float) -> str:
  """Returns a number with three digits, or all digits before its point: "0.123", "4.5", "6,789"."""
  return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def five_digits(value: float) -> str:
  """Returns a metric with five digits, the same for a float32 and a float64 of it."""
  # A float32 has seven digits. As a float64, the float32 0.687875 is 0.68787497, which would round
  # to 0.68787 beside a report's 0.68788.
  return f"{float(f'{value:.7g}'):.5g}"


def table(
  header: Sequence[str] | None, rows: Sequence[Sequence[object]], right: Collection[int] = ()
) -> str:
  """Returns a table as text: a line for the header, then a line for each row.

  Args:
    header: titles of the columns; None for a table without titles.
    rows: the cells of each row.
    right: indices of right-aligned columns, such as numbers.
  """
  # A table of rich takes 50 times as long, and a training logs two before its first step.
  from rich.cells import cell_len

  lines = [[str(cell) for cell in row] for row in [*([] if header is None else [header]), *rows]]
  widths = [max(map(cell_len, column)) for column in itertools.zip_longest(*lines, fillvalue="")]

  def aligned(index: int, cell: str) -> str:
    space = " " * (widths[index] - cell_len(cell))
    return space + cell if index in right else cell + space

  return "\n".join(
    "  ".join(itertools.starmap(aligned, enumerate(line))).rstrip() for line in lines
  )


def shorten(text: str, most: int) -> str:
  """Returns a text of at most so many letters; the last one is "…" if it was longer."""
  return text if len(text) <= most else text[: most - 1] + "…"


def short_names(keys: Sequence[str]) -> list[str]:
  """Returns the shortest ends of keys that tell them apart, such as learning_rate."""

  def end(key, length):
    return ".".join(key.split(".")[-length:])

  found = []
  for key in keys:
    length = 1
    while (
      end(key, length) != key and sum(end(other, length) == end(key, length) for other in keys) > 1
    ):
      length += 1
    found.append(end(key, length))
  return found
