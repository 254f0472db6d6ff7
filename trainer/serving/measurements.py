"""Measurements of a server's models, in the text format of Prometheus.

    octet_requests_total{model="cats",verb="predict",code="200"} 12
    octet_request_seconds_bucket{model="cats",le="0.005"} 11    from its headers to its answer
    octet_batch_examples_bucket{model="cats",le="8"} 3          examples in a call of the model
    octet_model_version{model="cats"} 1732283000
    octet_reload_failures_total{model="cats"} 0

The text format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import bisect
import collections
import threading
from collections.abc import Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_EXAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_NOT_ARRIVED = (408, 499)  # too slow, hung up
_TYPES = {
  "octet_requests_total": "counter",
  "octet_request_seconds": "histogram",
  "octet_batch_examples": "histogram",
  "octet_model_version": "gauge",
  "octet_reload_failures_total": "counter",
}


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

  def lines(self, name: str, label: str) -> list[str]:
    """Returns the histogram in Prometheus's text format; label is as 'model="cats"'."""
    # A bucket of Prometheus counts all values up to its bound, those of earlier buckets included.
    total, lines = 0, []
    for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
      total += count
      lines.append(f'{name}_bucket{{{label},le="{bound}"}} {total}')
    return [*lines, f"{name}_sum{{{label}}} {self._sum:.9g}", f"{name}_count{{{label}}} {total}"]


class Measurements:
  """The measurements of a model. Threads may call the methods at the same time."""

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
      # How long a client took to send nothing says nothing about the server.
      if code not in _NOT_ARRIVED:
        self._seconds.add(seconds)

  def add_batch(self, examples: int) -> None:
    """Counts a call of the model with this number of examples."""
    with self._lock:
      self._examples.add(examples)

  def add_reload_failure(self) -> None:
    """Counts a newer export that could not be loaded."""
    with self._lock:
      self._reload_failures += 1

  def lines(self, metric: str, model: str, version: str) -> list[str]:
    """Returns the lines of a metric of _TYPES; version is the loaded model's."""
    label = f'model="{model}"'
    with self._lock:
      if metric == "octet_requests_total":
        return [
          f'{metric}{{{label},verb="{verb}",code="{code}"}} {count}'
          for (verb, code), count in sorted(self._requests.items())
        ]
      if metric == "octet_request_seconds":
        return self._seconds.lines(metric, label)
      if metric == "octet_batch_examples":
        return self._examples.lines(metric, label)
      if metric == "octet_model_version":
        return [f"{metric}{{{label}}} {version}"] if version.isdigit() else []
      return [f"{metric}{{{label}}} {self._reload_failures}"]


def text(measured: Mapping[str, tuple[Measurements, str]]) -> str:
  """Returns all measurements in Prometheus's text format.

  Args:
    measured: name of a model → its measurements, and the version that is loaded.
  """
  lines = []
  for metric, kind in _TYPES.items():
    lines.append(f"# TYPE {metric} {kind}")  # once, before the lines of all models
    for model, (measurements, version) in measured.items():
      lines += measurements.lines(metric, model, version)
  return "\n".join(lines) + "\n"
