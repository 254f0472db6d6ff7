"""Reads the text of a compiled program: all-reduces between cores, and figures for estimates."""

import dataclasses
import math
import re

from trainer.preflight import memory

_ALL_REDUCE = re.compile(r"^\s*(?:ROOT )?%\S+ = (.*?) all-reduce(?:-start)?\((.*)$", re.MULTILINE)
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class AllReduces:
  """The all-reduces of a program.

  Attributes:
    sizes: bytes of each, without padding. The compiler merges many small ones.
    replicas: the number of cores that take part; 0 if there is no all-reduce.
  """

  sizes: tuple[int, ...]
  replicas: int

  @property
  def count(self) -> int:
    """The number of all-reduces."""
    return len(self.sizes)

  @property
  def bytes(self) -> int:
    """Bytes of all all-reduces together."""
    return sum(self.sizes)


def all_reduces(hlo: str) -> AllReduces:
  """Finds the all-reduces of an optimized program."""
  sizes, replicas = [], 0
  for results, rest in _ALL_REDUCE.findall(hlo):
    sizes.append(
      sum(
        math.prod(int(size) for size in shape.split(",") if size) * memory.dtype_bytes(dtype)
        for dtype, shape in _ARRAY.findall(results)
      )
    )
    if group := re.search(r"replica_groups=\{\{([\d,]+)\}", rest):
      replicas = max(replicas, group[1].count(",") + 1)
    elif group := re.search(r"replica_groups=\[\d+,(\d+)\]", rest):  # The short form.
      replicas = max(replicas, int(group[1]))
  return AllReduces(tuple(sizes), replicas)


def entry(hlo: str) -> str:
  """Returns the text of the main computation."""
  start = hlo.find("\nENTRY ")
  return hlo[start:] if start >= 0 else hlo


def custom_calls(hlo: str) -> int:
  """Returns the number of custom calls in the main computation."""
  return len(re.findall(r" custom-call\(", entry(hlo)))
