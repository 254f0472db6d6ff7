"""Takes a few of many examples while they pass by: spread over the whole set, or the worst.

    sample = samples.Spread(24, seed=1)            # or samples.Worst(24, badness)
    for pair in sample.watch(pairs):
      ...                                          # each pair passes through
    sample.taken()                                 # [(17, pair), (203, pair), ...]

No more pairs are held in memory than are taken, and the length of the set need not be known.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf


class Spread:
  """Takes examples of which each in the set has the same chance.

  This is reservoir sampling, algorithm R of J. S. Vitter, "Random Sampling with a Reservoir"
  (1985). Examples at equal distances would miss classes where the set has them in turn.

  Args:
    count: the most examples to take.
    seed: the same seed takes the same examples of as many.
  """

  title = "{shown} of {all} predictions, from the whole set"

  def __init__(self, count: int, seed: int) -> None:
    self._count = count
    self._random = np.random.default_rng(abs(seed))
    self._taken: list[tuple[int, Any]] = []

  def watch(self, pairs: Iterable[Any]) -> Iterator[Any]:
    """Yields the pairs as they are, and takes some of them."""
    for number, pair in enumerate(pairs):
      if number < self._count:
        self._taken.append((number, _copied(pair)))
      else:
        place = self._random.integers(number + 1)
        if place < self._count:
          self._taken[place] = (number, _copied(pair))
      yield pair

  def taken(self) -> list[tuple[int, Any]]:
    """Returns (number in the set, pair) of what was taken, in the order of the set."""
    return sorted(self._taken, key=lambda entry: entry[0])

  def fewer(self, count: int) -> list[tuple[int, Any]]:
    """Returns as many of what was taken, from all parts of it."""
    taken = self.taken()
    if len(taken) <= count:
      return taken
    return [taken[index * len(taken) // count] for index in range(count)]


class Worst:
  """Takes the examples that are predicted worst.

  Args:
    count: the most examples to take.
    badness: gives each pair a number, which is greater for a worse prediction. NaN is the worst.
  """

  title = "The worst {shown} of {all} predictions"

  def __init__(self, count: int, badness: Callable[[Any], float]) -> None:
    self._count = count
    self._badness = badness
    self._heap: list[tuple[float, int, Any]] = []  # the least bad of them first

  def watch(self, pairs: Iterable[Any]) -> Iterator[Any]:
    """Yields the pairs as they are, and takes some of them."""
    for number, pair in enumerate(pairs):
      value = self._badness(pair)
      value = math.inf if math.isnan(value) else value
      # Of equally bad ones the first are taken; numbers differ, so that no pairs are compared.
      if len(self._heap) < self._count:
        heapq.heappush(self._heap, (value, -number, _copied(pair)))
      elif self._heap and value > self._heap[0][0]:
        heapq.heapreplace(self._heap, (value, -number, _copied(pair)))
      yield pair

  def taken(self) -> list[tuple[int, Any]]:
    """Returns (number in the set, pair) of what was taken, the worst first."""
    return [(-number, pair) for _, number, pair in sorted(self._heap, reverse=True)]

  def fewer(self, count: int) -> list[tuple[int, Any]]:
    """Returns as many of what was taken, the worst."""
    return self.taken()[:count]


def _copied(pair):
  # A view on a batch would keep all of the batch in memory.
  return tf.nest.map_structure(
    lambda value: value.copy() if isinstance(value, np.ndarray) else value, pair
  )
