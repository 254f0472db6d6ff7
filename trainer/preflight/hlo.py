"""What the text of a compiled program tells: the reductions between the cores, and figures that
its cost analysis needs.
"""

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
    count: how many the compiler made of them; it merges many small ones.
    sizes: bytes of each, without padding.
    replicas: the number of cores that take part, 0 if there is none.
  """

  sizes: tuple[int, ...]
  replicas: int

  @property
  def count(self):
    return len(self.sizes)

  @property
  def bytes(self):
    return sum(self.sizes)


def all_reduces(hlo):
  """The AllReduces of an optimized program."""
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
    elif group := re.search(r"replica_groups=\[\d+,(\d+)\]", rest):  # the short form
      replicas = max(replicas, int(group[1]))
  return AllReduces(tuple(sizes), replicas)


def entry(hlo):
  """The text of the main computation."""
  start = hlo.find("\nENTRY ")
  return hlo[start:] if start >= 0 else hlo


def custom_calls(hlo):
  """Number of custom calls in the main computation."""
  return len(re.findall(r" custom-call\(", entry(hlo)))


def estimated_cycles(hlo):
  """The sum of the compiler's own estimates in the main computation, or 0; reductions between
  cores and some pooling have none.
  """
  return sum(int(cycles) for cycles in re.findall(r'"estimated_cycles":"(\d+)"', entry(hlo)))
