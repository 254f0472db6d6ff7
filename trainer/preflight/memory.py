"""Which buffers of a compiled program are large, and which of them are mostly padding.

A TPU keeps the two innermost axes of an array, in an order that the compiler chooses, in tiles of 8
× 128 (16 bits: of two such rows) and pads both to whole tiles; the compiler's list of buffers has
each one's layout and size with that padding.
"""

import dataclasses
import math
import re

from trainer import formatting

_BYTES = {"pred": 1, "s4": 1, "u4": 1, "bf16": 2, "f16": 2, "c64": 8, "c128": 16}

_ALLOCATION = re.compile(r"^allocation (\d+): size \d+(.*)$")
# Of memory space 0, which is the HBM. Tuples of arrays, which are tables of addresses, do not
# match.
_VALUE = re.compile(
  r"^ value: <\d+ ([^ {]+)(?:\{[\d,]*\})? @0> \(size=(\d+),offset=(\d+)\): "
  r"(\w+)\[([\d,]*)\](?:\{([\d,]*)[^}]*\})?$"
)


@dataclasses.dataclass(frozen=True)
class Buffer:
  """An array in a core's memory.

  Attributes:
    dtype, shape: as XLA writes them: "f32", (32, 64, 64, 32).
    minor_to_major: its axes, the innermost first.
    size: bytes, with padding.
    count: how many of this kind lie at different places.
    op: what makes it, by the model's names, such as "model_fn/conv2d_1/convolution"; "argument" for
      variables and the batch, "" if not known.
  """

  dtype: str
  shape: tuple[int, ...]
  minor_to_major: tuple[int, ...]
  size: int
  count: int = 1
  op: str = ""

  @property
  def content(self):
    """Bytes without padding."""
    return math.prod(self.shape) * dtype_bytes(self.dtype)

  @property
  def padding(self):
    """Bytes of padding, of all of its kind."""
    return max(0, self.size - self.content) * self.count

  def __str__(self):
    return f"{self.dtype}[{','.join(map(str, self.shape))}]"

  def padded_axis(self):
    """(axis, its size, the size it is padded to) of the one of the two innermost axes that
    padding makes grow most; None if none grows.
    """
    candidates = []
    for position, multiple in enumerate((128, 8)):
      if position < len(self.minor_to_major):
        axis = self.minor_to_major[position]
        padded = -(-self.shape[axis] // multiple) * multiple
        # The compiler has narrower tiles for few rows, so that the outer of the two may be padded
        # less than its tile's height.
        if padded > self.shape[axis] and (
          position == 0 or self.size * 1.01 >= self.content * padded / self.shape[axis]
        ):
          candidates.append((padded / self.shape[axis], axis, self.shape[axis], padded))
    return max(candidates)[1:] if candidates else None

  def advice(self, per_core):
    """A sentence on the padding: what is stored as what, why, what to change; "" where nothing
    is worth saying.
    """
    axis = self.padded_axis()
    if axis is None or self.size < 1.3 * self.content:
      return ""
    index, size, padded = axis
    name = "last dimension" if index == len(self.shape) - 1 else f"dimension {index}"
    return f"{formatting.memory_size(self.content)} stored as {formatting.memory_size(self.size)}: {name} {size} padded to {padded}. {self._change(index, size, padded, per_core)}"

  def _change(self, index, size, padded, per_core):
    if re.search("stateless|random", self.op):
      return "It belongs to random numbers as they are lowered for a CPU; a TPU's own lowering draws them in another way."
    if index == 0 and size == per_core:
      return f"It is the batch: {padded} examples per core would take the same memory here."
    if index == len(self.shape) - 1 and len(self.shape) > 1:
      return f"{padded} channels or units would take the same memory; with a per-core batch that is a multiple of 128, the batch may fill the lanes."
    return f"A size of {padded} would take the same memory; so would an order of the axes in which a multiple of 128 comes last."


def dtype_bytes(dtype):
  """Bytes of one element of an XLA dtype such as "f32"."""
  digits = re.search(r"\d+", dtype)
  return _BYTES.get(dtype) or max(1, int(digits[0]) // 8 if digits else 1)


def largest(listing, limit=8, key=lambda buffer: buffer.size * buffer.count):
  """The largest Buffers of a program, those of one kind and origin together.

  Args:
    listing: a compiler.Listing.
    limit: how many.
    key: what is large.
  """
  names = _op_names(listing.hlo)
  places = {}
  allocation, is_argument = "", False
  for line in listing.buffers.splitlines():
    if start := _ALLOCATION.match(line):
      allocation, is_argument = start[1], ", parameter " in start[2]
    elif value := _VALUE.match(line):
      instruction, size, offset, dtype, shape, order = value.groups()
      kind = dtype, _ints(shape), _ints(order or ""), int(size)
      places.setdefault(kind, {}).setdefault(
        (allocation, offset), "argument" if is_argument else names.get(instruction, "")
      )
  buffers = [
    Buffer(*kind, len(ops), next((op for op in ops.values() if op), ""))
    for kind, ops in places.items()
  ]
  return sorted((buffer for buffer in buffers if key(buffer)), key=key, reverse=True)[:limit]


def _ints(text):
  return tuple(int(number) for number in text.split(",") if number)


def _op_names(hlo):
  """dict of instruction → op_name of its metadata."""
  names = re.findall(
    r'^\s*(?:ROOT )?%([\w.-]+) = [^\n]*metadata=\{op_name="([^"]+)"', hlo, re.MULTILINE
  )
  # Of what the compiler made one, it keeps both names: "model_fn/Reshape;reshape.25".
  return {
    instruction: "copy of an argument" if name == "XLA_Args" else name.split(";")[0]
    for instruction, name in names
  }
