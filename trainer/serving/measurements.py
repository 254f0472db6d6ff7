"""Measurements of a server, in the text format of Prometheus.

    octet_requests_total{verb="predict",code="200"} 12
    octet_request_seconds_bucket{le="0.005"} 11             from the request's arrival to its answer
    octet_batch_examples_bucket{le="8"} 3                   examples in a call of the model
    octet_model_version 1732283000
    octet_reload_failures_total 0

The text format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import bisect
import collections
import threading
from collections.abc import Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_EXAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
  """Counts values in buckets.

  Args:
    bounds: upper bounds of the buckets, in rising order. A last bucket has no bound.
  """

  def __init__(self, bounds: Sequence[float]) -> None:
    self._bounds = bounds
    self._counts = [0] * (len(bounds) + 1)
    self._sum = 0.0

  def add(self, value: float) -> None:
    """Counts a value."""
    self._counts[bisect.bisect_left(self._bounds, value)] += 1
    self._sum += value

  def lines(self, name: str) -> list[str]:
    """Returns the histogram in Prometheus's text format."""
    # A bucket of Prometheus counts all values up to its bound, those of earlier buckets included.
    total, lines = 0, [f"# TYPE {name} histogram"]
    for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
      total += count
      lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
    return [*lines, f"{name}_sum {self._sum:.9g}", f"{name}_count {total}"]


class Measurements:
  """The measurements of a server. Threads may call the methods at the same time."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._requests: collections.Counter[tuple[str, int]] = collections.Counter()
    self._seconds = Histogram(_SECONDS)
    self._examples = Histogram(_EXAMPLES)
    self._reload_failures = 0

  def add_request(self, verb: str, code: int, seconds: float) -> None:
    """Counts an answered request: what it asked for, its HTTP status, and its duration."""
    with self._lock:
      self._requests[verb, code] += 1
      self._seconds.add(seconds)

  def add_batch(self, examples: int) -> None:
    """Counts a call of the model with this number of examples."""
    with self._lock:
      self._examples.add(examples)

  def add_reload_failure(self) -> None:
    """Counts a newer export that could not be loaded."""
    with self._lock:
      self._reload_failures += 1

  def text(self, version: str) -> str:
    """Returns all measurements in Prometheus's text format; version is the loaded model's."""
    with self._lock:
      lines = ["# TYPE octet_requests_total counter"]
      lines += [
        f'octet_requests_total{{verb="{verb}",code="{code}"}} {count}'
        for (verb, code), count in sorted(self._requests.items())
      ]
      lines += self._seconds.lines("octet_request_seconds")
      lines += self._examples.lines("octet_batch_examples")
      if version.isdigit():
        lines += ["# TYPE octet_model_version gauge", f"octet_model_version {version}"]
      lines += [
        "# TYPE octet_reload_failures_total counter",
        f"octet_reload_failures_total {self._reload_failures}",
      ]
    return "\n".join(lines) + "\n"
