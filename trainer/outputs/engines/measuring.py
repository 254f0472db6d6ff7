"""Measures engines, and runs each batch in the fastest one for its size."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import logging

from trainer import errors
from trainer.outputs.engines import engine

_ROUNDS = 5  # The fewest rounds of a measurement.
_MEASURING_SECS = 1.0  # The shortest time of a measurement.
_SHORT_SECS = 0.02


def measure(
  candidates: Sequence[engine.Engine],
  features: Mapping[str, np.ndarray],
  clock: Callable = time.perf_counter,
  at_least: float = _MEASURING_SECS,
) -> dict[str, float]:
  """Measures calls of each engine. The engines take turns, and the median counts.

  The median and not the shortest time: on a busy machine, engines with threads that wait for each
  other lose more than others, and will do so later.

  Args:
    candidates: the engines.
    features: the inputs of a call.
    clock: returns the time in seconds.
    at_least: the shortest time of the whole measurement, in seconds. There are at least `_ROUNDS`
      rounds.

  Returns:
    Name of an engine → seconds.
  """
  for candidate in candidates:  # The first call compiles and fills caches.
    candidate.predict_batch(features)
  seconds: dict[str, list[float]] = {candidate.name: [] for candidate in candidates}
  began, rounds = clock(), 0
  while rounds < _ROUNDS or clock() - began < at_least:
    for candidate in candidates:
      taken = seconds[candidate.name]
      if not taken or min(taken) < _SHORT_SECS:
        # After a call, the threads of the former engine spin for some milliseconds and slow down
        # the next call. So that call does not count.
        candidate.predict_batch(features)
      start = clock()
      candidate.predict_batch(features)
      taken.append(clock() - start)
    rounds += 1
  return {name: statistics.median(taken) for name, taken in seconds.items()}


class FastestEngine(engine.Engine):
  """Runs each batch in the fastest engine for its size.

  An engine may fail for a batch unlike those that it was tried on. Then the engine TensorFlow runs
  this batch, and all later ones in place of the engine.

  Args:
    by_size: batch size → engine, in rising order.
    reference: the engine TensorFlow.
  """

  def __init__(self, by_size: Mapping[int, engine.Engine], reference: engine.Engine) -> None:
    self._reference = reference
    self._choose(by_size)

  def _choose(self, by_size):
    self._by_size = dict(by_size)
    self.name = "+".join(dict.fromkeys(chosen.name for chosen in self._by_size.values()))

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    rows = len(next(iter(features.values())))
    sizes = list(self._by_size)
    size = max((size for size in sizes if size <= rows), default=sizes[0])
    chosen = self._by_size[size]
    if chosen is self._reference:
      return chosen.predict_batch(features)
    try:
      return chosen.predict_batch(features)
    except Exception as error:  # The engines' libraries raise errors of many kinds.
      outputs = self._reference.predict_batch(features)  # Raises if the features are at fault.
      logging.warning(
        "The engine %s failed for %d examples; TensorFlow runs them and all later ones. %s: %s.",
        chosen.name,
        rows,
        type(error).__name__,
        errors.first_line(error),
      )
    self._choose(
      {size: self._reference if each is chosen else each for size, each in self._by_size.items()}
    )
    return outputs
