"""Places the nodes of a graph in layers: few of its edges cross, and none runs through a node.

The method is by Sugiyama, Tagawa and Toda (1981). An edge that passes layers gets a place in each
of them. Each layer is sorted by the means of its nodes' neighbours. Then each node moves to the
mean of its neighbours, as far as those beside it leave room.
"""

import dataclasses
import itertools
from collections.abc import Mapping

_SWEEPS = 24
_PASSING = 10.0  # the room of an edge in a layer that it passes, in pixels
_GAP = 16.0


@dataclasses.dataclass(frozen=True)
class Passing:
  """The place of an edge in a layer that it passes."""

  start: str
  end: str
  layer: int


Node = str | Passing


@dataclasses.dataclass(frozen=True)
class Layout:
  """Where nodes and edges are, from left to right.

  Attributes:
    x: node → its middle.
    ways: (start, end) → the x of the edge in each layer from its start to its end.
    width: the layout's width.
  """

  x: Mapping[str, float]
  ways: Mapping[tuple[str, str], list[float]]
  width: float


def place(
  edges: Mapping[str, set[str]], layer: Mapping[str, int], widths: Mapping[str, float]
) -> Layout:
  """Returns the layout of a graph.

  Args:
    edges: node → the nodes at the ends of its edges, all in lower layers.
    layer: node → the number of its layer, from 0.
    widths: node → its width.
  """
  ways = {
    (start, end): [
      start,
      *(Passing(start, end, each) for each in range(layer[start] - 1, layer[end], -1)),
      end,
    ]
    for start, ends in sorted(edges.items())
    for end in sorted(ends)
  }
  rows: list[list[Node]] = [[] for _ in range(max(layer.values()) + 1)]
  for node in sorted(layer):
    rows[layer[node]].append(node)
  for way in ways.values():
    for passing in way[1:-1]:
      rows[passing.layer].append(passing)
  neighbours: dict[Node, list[Node]] = {node: [] for row in rows for node in row}
  for way in ways.values():
    for first, second in itertools.pairwise(way):
      neighbours[first].append(second)
      neighbours[second].append(first)
  sizes = {
    node: widths[node] if isinstance(node, str) else _PASSING for row in rows for node in row
  }

  x = {node: float(index) for row in rows for index, node in enumerate(row)}

  def mean(node: Node) -> float:
    found = neighbours[node]
    return sum(x[each] for each in found) / len(found) if found else x[node]

  for sweep in range(_SWEEPS):
    for row in rows if sweep % 2 else rows[::-1]:
      row.sort(key=lambda node: (mean(node), str(node)))
      _spread(row, {node: mean(node) for node in row}, sizes, x)
  left = min(x[node] - sizes[node] / 2 for node in x) - _GAP
  right = max(x[node] + sizes[node] / 2 for node in x) + _GAP
  return Layout(
    {node: at - left for node, at in x.items() if isinstance(node, str)},
    {edge: [x[node] - left for node in way] for edge, way in ways.items()},
    right - left,
  )


def _spread(row, wanted, sizes, x):
  """Moves the nodes of a row as near as possible to their wanted places, in order."""
  offsets = [0.0]
  for first, second in itertools.pairwise(row):
    offsets.append(offsets[-1] + (sizes[first] + sizes[second]) / 2 + _GAP)
  # Pool adjacent violators: the least squares under x[i + 1] >= x[i] + the space between both.
  pools: list[list[float]] = []
  for node, offset in zip(row, offsets, strict=True):
    pools.append([wanted[node] - offset])
    while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
      last = pools.pop()
      pools[-1] += last
  places = [_mean(pool) for pool in pools for _ in pool]
  for node, offset, at in zip(row, offsets, places, strict=True):
    x[node] = at + offset


def _mean(values):
  return sum(values) / len(values)
