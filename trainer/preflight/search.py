"""Searches for the largest per-core batch that fits, by compiling several."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class BatchSearch:
  """The result of a search.

  Attributes:
    largest: the largest compiled batch that fits; None without one.
    too_large: the smallest compiled batch that does not fit, or None.
    tried: (batch, does it fit) of each compiled batch, in order.
  """

  largest: int | None
  too_large: int | None
  tried: list[tuple[int, bool]]


def largest_batch(
  compile_at: Callable[[int], tuple[bool, int]],
  first: int,
  first_needs: int,
  limit_bytes: int,
  max_compiles: int = 12,
) -> BatchSearch:
  """Searches between batches that fit and batches that do not.

  The result is exact to 8 examples, because a TPU stores them in eights, or to 1/64 of a large
  batch. Memory grows almost linearly with the batch; a line through the known points gives the next
  batch to compile. Only compiled batches count: near the limit the compiler recomputes values
  instead of storing them, so more may fit than the line says.

  Args:
    compile_at: compiles the step at a per-core batch; returns (does it fit, the bytes it needs).
    first: a batch with a known result.
    first_needs: the bytes that this batch needs.
    limit_bytes: the memory of a core.
    max_compiles: the largest number of compilations.
  """
  needs = {first: first_needs}
  fits = {first: first_needs <= limit_bytes}
  while len(fits) <= max_compiles:
    candidate = _next(
      [b for b in fits if fits[b]], [b for b in fits if not fits[b]], needs, limit_bytes
    )
    if candidate is None:
      break
    fits[candidate], needs[candidate] = compile_at(candidate)
  return BatchSearch(
    max((b for b in fits if fits[b]), default=None),
    min((b for b in fits if not fits[b]), default=None),
    list(fits.items()),
  )


def _next(fitting, too_large, needs, limit):
  """Returns the batch to try next; None if the search is fine enough."""
  low, high = max(fitting, default=0), min(too_large, default=None)
  step = _step(low, high)
  if high is not None and high - low <= step and (low or step == 1):
    return None
  guess = _on_the_line(needs, limit)
  if high is None:
    return max(_rounded(min(guess, 8 * low), step), _rounded(low, step) + step)
  # After four compilations the search no longer trusts the line, and bisects.
  if guess <= low or guess >= high or len(needs) > 4:
    guess = (low + high) / 2
  candidate = _rounded(guess, step)
  if not low < candidate < high:
    candidate = _rounded(low, step) + step
  return candidate


def _step(low, high):
  """Returns the step of the search: 1 up to a batch of 16, then 8, then about 1/64 of the batch.

  The step is a power of two.
  """
  if low < 8 and high is not None and high <= 16:
    return 1
  return max(8, 2 ** ((high or low) // 64).bit_length() // 2)


def _on_the_line(needs, limit):
  """Returns the batch where a line through two known points reaches the limit.

  The two batches are the nearest to the limit by memory. With one known batch, the line goes
  through it and the origin.
  """
  nearest = sorted(needs, key=lambda batch: abs(needs[batch] - limit))[:2]
  if len(nearest) == 1 or needs[nearest[0]] == needs[nearest[1]]:
    return nearest[0] * limit / max(needs[nearest[0]], 1)
  (a, b) = nearest
  return a + (limit - needs[a]) * (b - a) / (needs[b] - needs[a])


def _rounded(value, step):
  return int(value // step) * step
