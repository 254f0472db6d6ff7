"""Finds the large buffers of a compiled program.

A TPU stores the two innermost axes of an array in tiles of 8 × 128 (16-bit values: two such rows)
and pads both axes to whole tiles. The compiler chooses the order of the axes. Its list of buffers
has the layout of each buffer and its size with padding.
"""

import dataclasses
import math
import re
from typing import Any

from trainer.cli import formatting

_BYTES = {"pred": 1, "s4": 1, "u4": 1, "bf16": 2, "f16": 2, "c64": 8, "c128": 16}

_ALLOCATION = re.compile(r"^allocation (\d+): size (\d+)(.*)$")
# Only values in memory space 0, the HBM, match. Tuples (tables of addresses) do not.
_VALUE = re.compile(
  r"^ value: <\d+ ([^ {]+)(?:\{[\d,]*\})? @0> \(size=(\d+),offset=(\d+)\): "
  r"(\w+)\[([\d,]*)\](?:\{([\d,]*)[^}]*\})?$"
)


@dataclasses.dataclass(frozen=True)
class Listing:
  """The compiler's output about a program, whether it fits or not.

  Attributes:
    hlo: text of the optimized HLO.
    buffers: text of the buffer assignment, see the module.
    allocated_bytes: memory of a core that the program takes, arguments included.
  """

  hlo: str = ""
  buffers: str = ""
  allocated_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Buffer:
  """An array in a core's memory.

  Attributes:
    dtype: as XLA writes it: "f32".
    shape: such as (32, 64, 64, 32).
    minor_to_major: the axes, the innermost first.
    size: bytes, with padding.
    count: the number of such buffers at different addresses.
    op: the op that makes it, such as "model_fn/conv2d_1/convolution"; "argument" for variables and
      the batch; "" if not known.
  """

  dtype: str
  shape: tuple[int, ...]
  minor_to_major: tuple[int, ...]
  size: int
  count: int = 1
  op: str = ""

  @property
  def content(self) -> int:
    """Bytes of one buffer without padding."""
    return math.prod(self.shape) * dtype_bytes(self.dtype)

  def __str__(self) -> str:
    return f"{self.dtype}[{','.join(map(str, self.shape))}]"

  def line(self) -> str:
    """Returns its size, number, form and origin, for people."""
    count = f" × {self.count}" if self.count > 1 else ""
    return f"{formatting.memory_size(self.size)}{count}  {self}  {self.op}"


def dtype_bytes(dtype: str) -> int:
  """Returns the bytes of one element of an XLA dtype such as "f32"."""
  digits = re.search(r"\d+", dtype)
  return _BYTES.get(dtype) or max(1, int(digits[0]) // 8 if digits else 1)


def allocated_bytes(buffers: str) -> int:
  """Returns the bytes of a core's memory that a program takes, arguments and padding included.

  Args:
    buffers: text of the buffer assignment. What has a color there is in another memory.
  """
  found = (_ALLOCATION.match(line) for line in buffers.splitlines())
  return sum(int(start[2]) for start in found if start and ", color " not in start[3])


def largest(listing: Listing, limit: int = 8) -> list[Buffer]:
  """Returns the largest buffers of a program; buffers of one kind and origin count together.

  Args:
    listing: the compiler's output.
    limit: the number of buffers.
  """
  names = _op_names(listing.hlo)
  places: dict[Any, dict[tuple[str, str], str]] = {}
  allocation, is_argument = "", False
  for line in listing.buffers.splitlines():
    if start := _ALLOCATION.match(line):
      allocation, is_argument = start[1], ", parameter " in start[3]
    elif value := _VALUE.match(line):
      instruction, size, offset, dtype, shape, order = value.groups()
      kind = dtype, _ints(shape), _ints(order or ""), int(size)
      # Values at one place of an allocation share its memory: the place counts once.
      places.setdefault(kind, {}).setdefault(
        (allocation, offset), "argument" if is_argument else names.get(instruction, "")
      )
  buffers = [
    Buffer(
      kind[0], kind[1], kind[2], kind[3], len(ops), next((op for op in ops.values() if op), "")
    )
    for kind, ops in places.items()
  ]
  return sorted(buffers, key=lambda buffer: buffer.size * buffer.count, reverse=True)[:limit]


def _ints(text):
  return tuple(int(number) for number in text.split(",") if number)


def _op_names(hlo):
  """Returns instruction → op_name in its metadata."""
  names = re.findall(
    r'^\s*(?:ROOT )?%([\w.-]+) = [^\n]*metadata=\{op_name="([^"]+)"', hlo, re.MULTILINE
  )
  # The compiler keeps the names of all ops that it merged: "model_fn/Reshape;reshape.25".
  return {
    instruction: "copy of an argument" if name == "XLA_Args" else name.split(";")[0]
    for instruction, name in names
  }
