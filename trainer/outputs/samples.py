"""Takes a few of many examples while they pass by: spread over the whole set, or the worst.

    sample = samples.spread(24, seed=1)            # or samples.worst(24, badness)
    for pair in sample.watch(pairs):
      ...                                          # each pair passes through
    sample.taken()                                 # [(17, pair), (203, pair), ...]

No more pairs are held in memory than are taken, and the length of the set need not be known.
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
    title: of those that are shown, with {shown} and {all}.
    is_spread: whether `taken` and `fewer` go by the order of the set. Else they begin with the
      greatest key.
  """

  count: int
  key: Callable[[Any], float]
  title: str
  is_spread: bool

  def __post_init__(self) -> None:
    self._heap: list[tuple[float, int, Any]] = []  # (key, -number in the set, pair), least first

  def watch(self, pairs: Iterable[Any]) -> Iterator[Any]:
    """Yields the pairs as they are, and takes some of them."""
    for number, pair in enumerate(pairs):
      key = self.key(pair)
      key = math.inf if math.isnan(key) else key
      # Of equal keys the first are taken; numbers differ, so that no pairs are compared.
      if len(self._heap) < self.count:
        heapq.heappush(self._heap, (key, -number, _copied(pair)))
      elif self._heap and key > self._heap[0][0]:
        heapq.heapreplace(self._heap, (key, -number, _copied(pair)))
      yield pair

  def taken(self) -> list[tuple[int, Any]]:
    """Returns (number in the set, pair) of what was taken."""
    ordered = [(-number, pair) for _, number, pair in sorted(self._heap, reverse=True)]
    return sorted(ordered, key=lambda entry: entry[0]) if self.is_spread else ordered

  def fewer(self, count: int) -> list[tuple[int, Any]]:
    """Returns as many of what was taken: from all parts of it, or with the greatest keys."""
    taken = self.taken()
    if not self.is_spread or len(taken) <= count:
      return taken[:count]
    return [taken[index * len(taken) // count] for index in range(count)]


def spread(count: int, seed: int) -> Sample:
  """Takes examples of which each in the set has the same chance: their keys are random.

  Examples at equal distances would miss classes where the set has them in turn. The same seed takes
  the same examples of as many.
  """
  random = np.random.default_rng(abs(seed))
  title = "{shown} of {all} predictions, from the whole set"
  return Sample(count, lambda pair: random.random(), title, is_spread=True)


def worst(count: int, badness: Callable[[Any], float]) -> Sample:
  """Takes the examples with the greatest badness, that which is predicted worst first."""
  return Sample(count, badness, "The worst {shown} of {all} predictions", is_spread=False)


def _copied(pair):
  # A view on a batch would keep all of the batch in memory.
  return tf.nest.map_structure(
    lambda value: value.copy() if isinstance(value, np.ndarray) else value, pair
  )
