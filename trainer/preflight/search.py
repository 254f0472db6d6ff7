"""The largest per-core batch that fits, found by compiling."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Found:
  """What a search found.

  Attributes:
    largest: the largest batch that was compiled and fits, or None: not even the smallest does, or
      the search ended before it found one.
    too_large: the smallest batch that was compiled and does not fit, or None.
    tried: [(batch, whether it fits)], in order.
  """

  largest: int | None
  too_large: int | None
  tried: list[tuple[int, bool]]


def largest_batch(compile_at, first, first_needs, limit_bytes, max_compiles=12):
  """Searches between what fits and what does not, to within 8 examples, which is how a TPU stores
  them, or to within 1/64 of a larger batch.

  Memory is nearly a straight line of the batch, along which the next one to try is chosen. Near the
  limit the compiler computes again what it has no room to keep, so that more may fit than the line
  says: that is why everything is compiled and nothing taken from the line.

  Args:
    compile_at: function of a per-core batch that compiles the step and returns (fits, needed
      bytes).
    first: a batch that was compiled already, and first_needs, the bytes it needs.
    limit_bytes: what there is.
    max_compiles: the search ends after so many.

  Returns:
    A Found.
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
  return Found(
    max((b for b in fits if fits[b]), default=None),
    min((b for b in fits if not fits[b]), default=None),
    list(fits.items()),
  )


def _next(fitting, too_large, needs, limit):
  """The batch to try next, or None when there is none between."""
  low, high = max(fitting, default=0), min(too_large, default=None)
  step = _step(low, high)
  if high is not None and high - low <= step and (low or step == 1):
    return None
  guess = _on_the_line(needs, limit)
  if high is None:
    return max(_rounded(min(guess, 8 * low), step), _rounded(low, step) + step)
  if guess <= low or guess >= high or len(needs) > 4:  # the line has had its say
    guess = (low + high) / 2
  candidate = _rounded(guess, step)
  if not low < candidate < high:
    candidate = _rounded(low, step) + step
  return candidate


def _step(low, high):
  """How fine the search is: one by one up to 16, then by 8, then by the power of two that is at
  most 1/64 of the batch.
  """
  if low < 8 and high is not None and high <= 16:
    return 1
  return max(8, 2 ** ((high or low) // 64).bit_length() // 2)


def _on_the_line(needs, limit):
  """Where the line through the two batches nearest to the limit crosses it; through the origin
  if there is one batch.
  """
  nearest = sorted(needs, key=lambda batch: abs(needs[batch] - limit))[:2]
  if len(nearest) == 1 or needs[nearest[0]] == needs[nearest[1]]:
    return nearest[0] * limit / max(needs[nearest[0]], 1)
  (a, b) = nearest
  return a + (limit - needs[a]) * (b - a) / (needs[b] - needs[a])


def _rounded(value, step):
  return int(value // step) * step
