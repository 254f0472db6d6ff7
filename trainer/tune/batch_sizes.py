"""Searches the largest batch that fits, and times a training with each tried batch.

The size doubles until a batch does not fit. Then the search halves the interval between the largest
that fits and the smallest that does not, down to a sixteenth of the size.
"""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from trainer import errors
from trainer.cli import formatting, processes
from trainer.compare import results, runner
from trainer.tune import memory

# Find the largest size to a sixteenth of it.
_PRECISION = 16


@dataclasses.dataclass(frozen=True)
class Measured:
  """A tried batch size.

  Attributes:
    batch_size: examples in a step, of all cores together.
    status: one of compare's results: OK if it fits, OUT_OF_MEMORY, OUT_OF_TIME or FAILED.
    problem: why there are no figures; "" if there are.
    step_seconds: the time of a step, with its input.
    examples_per_second: the same as a rate.
    memory_bytes: the process's peak of memory.
  """

  batch_size: int
  status: str
  problem: str = ""
  step_seconds: float = 0.0
  examples_per_second: float = 0.0
  memory_bytes: int = 0

  @property
  def fits(self) -> bool:
    """Whether a training with it runs."""
    return self.status == results.OK


def search(
  measure: Callable[[int], Measured], first: int, multiple: int, most: int
) -> list[Measured]:
  """Measures batch sizes until it knows the largest that fits; returns all, the smallest first.

  Args:
    measure: tries a size.
    first: the size to begin with.
    multiple: sizes are multiples of it: the number of replicas.
    most: the largest size to try.

  Raises:
    SettingError: no size fits, or the first one cannot run for another reason than memory.
  """
  tried = [measure(first)]
  while (size := _next(tried, multiple, most)) is not None:
    tried.append(measure(size))
  if not any(each.fits for each in tried):
    last = tried[-1]
    raise errors.SettingError(
      f"No batch size works. With {last.batch_size} examples: {last.problem}"
    )
  return sorted(tried, key=lambda each: each.batch_size)


def _next(tried, multiple, most):
  """Returns the size to try next; None if the search is over."""
  low = max((each.batch_size for each in tried if each.fits), default=0)
  too_large = [each.batch_size for each in tried if not each.fits]
  # A size that fails for another reason, such as its time, says nothing about smaller ones.
  if any(each.status not in (results.OK, results.OUT_OF_MEMORY) for each in tried):
    return None
  if not too_large:
    return 2 * low if 2 * low <= most else None
  high = min(too_large)
  if high - low <= max(multiple, low // _PRECISION):
    return None
  return (low + high) // 2 // multiple * multiple or multiple


def measure(
  size: int, request: Mapping[str, Any], limit_bytes: int, timeout_seconds: float
) -> Measured:
  """Measures a batch size in a process of its own, with `worker`.

  Args:
    size: the global batch.
    request: the worker's other inputs.
    limit_bytes: at this memory the process ends itself.
    timeout_seconds: the longest that the process may take.
  """
  asked = {**request, "batch_size": size, "limit_bytes": limit_bytes}
  with tempfile.TemporaryDirectory(prefix="tune") as folder:
    log = os.path.join(folder, "log.txt")
    with open(log, "wb") as output:
      status, answer = processes.ask("trainer.tune.worker", asked, output, timeout_seconds, {})
    if status == memory.EXIT_CODE:
      problem = f"The process needs more than {formatting.memory_size(limit_bytes)}."
      return Measured(size, results.OUT_OF_MEMORY, problem, memory_bytes=limit_bytes)
    if answer is None:
      answer = runner.failure(status, log, timeout_seconds)
  return Measured(size, **answer)
