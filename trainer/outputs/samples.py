"""Takes a few of many examples while they pass by: spread over the whole set, or the worst.

    sample = samples.spread(24, seed=1)            # or samples.worst(24, badness)
    for pair in sample.watch(pairs):
      ...                                          # each pair passes through
    sample.taken()                                 # [(17, pair), (203, pair), ...]

Memory holds at most the taken pairs, and the length of the set may be unknown.
"""

import dataclasses
import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(eq=False)
class Sample:
  """Takes the examples with the greatest keys.

  Attributes:
    count: the most examples to take.
    key: gives each pair a number. NaN is the greatest.
    title: of the shown examples, with {shown} and {all}.
    is_spread: whether `taken` and `fewer` go by the order of the set. Otherwise they begin with the
      greatest key.
  """

  count: int
  key: Callable[[Any], float]
  title: str
  is_spread: bool

  def __post_init__(self) -> None:
    self._heap: list[tuple[float, int, Any]] = []  # (key, -number in the set, pair), least first.

  def watch(self, pairs: Iterable[Any]) -> Iterator[Any]:
    """Yields the pairs unchanged, and takes some."""
    for number, pair in enumerate(pairs):
      key = self.key(pair)
      key = math.inf if math.isnan(key) else key
      # Among equal keys, keep the first; numbers differ, so the heap never compares pairs.
      if len(self._heap) < self.count:
        heapq.heappush(self._heap, (key, -number, _copied(pair)))
      elif self._heap and key > self._heap[0][0]:
        heapq.heapreplace(self._heap, (key, -number, _copied(pair)))
      yield pair

  def taken(self) -> list[tuple[int, Any]]:
    """Returns (number in the set, pair) of the taken pairs."""
    ordered = [(-number, pair) for _, number, pair in sorted(self._heap, reverse=True)]
    return sorted(ordered, key=lambda entry: entry[0]) if self.is_spread else ordered

  def fewer(self, count: int) -> list[tuple[int, Any]]:
    """Returns so many of the taken pairs: from all parts of the set, or with the greatest keys."""
    taken = self.taken()
    if not self.is_spread or len(taken) <= count:
      return taken[:count]
    return [taken[index * len(taken) // count] for index in range(count)]


def spread(count: int, seed: int) -> Sample:
  """Takes examples with equal chances, by random keys.

  Examples at equal distances would miss classes in a set that cycles through them. The same seed
  takes the same examples from equally many.
  """
  random = np.random.default_rng(abs(seed))
  title = "{shown} of {all} predictions, from the whole set"
  return Sample(count, lambda pair: random.random(), title, is_spread=True)


def worst(count: int, badness: Callable[[Any], float]) -> Sample:
  """Takes the examples with the greatest badness: the worst predictions first."""
  return Sample(count, badness, "The worst {shown} of {all} predictions", is_spread=False)


def _copied(pair):
  # A view on a batch would keep all of the batch in memory.
  return tf.nest.map_structure(
    lambda value: value.copy() if isinstance(value, np.ndarray) else value, pair
  )
