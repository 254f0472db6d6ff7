"""Measurements of a server's models, for Prometheus.

    octet_requests_total{model="cats",verb="predict",code="200"} 12
    octet_request_seconds_bucket{model="cats",le="0.005"} 11    from its headers to its answer
    octet_batch_examples_bucket{model="cats",le="8"} 3          examples in a call of the model
    octet_model_version{model="cats"} 1732283000
    octet_reload_failures_total{model="cats"} 0

The process's own metrics, such as process_resident_memory_bytes, come with them. prometheus_client
is in the extra [serve].
"""

from collections.abc import Iterable

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_EXAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_NOT_ARRIVED = (408, 499)  # too slow, hung up


class Measurements:
  """The measurements of a server's models. Threads may call the methods at the same time.

  Args:
    models: the names of the models.
  """

  def __init__(self, models: Iterable[str]) -> None:
    import prometheus_client as prometheus

    # Not the library's global registry: a process may have several servers, as the tests do.
    self._registry = registry = prometheus.CollectorRegistry()
    self._requests = prometheus.Counter(
      "octet_requests", "Answered requests.", ["model", "verb", "code"], registry=registry
    )
    self._seconds = prometheus.Histogram(
      "octet_request_seconds",
      "Seconds from the headers of a request to its answer.",
      ["model"],
      buckets=_SECONDS,
      registry=registry,
    )
    self._examples = prometheus.Histogram(
      "octet_batch_examples",
      "Examples in a call of the model.",
      ["model"],
      buckets=_EXAMPLES,
      registry=registry,
    )
    self._versions = prometheus.Gauge(
      "octet_model_version", "The loaded version.", ["model"], registry=registry
    )
    self._reload_failures = prometheus.Counter(
      "octet_reload_failures",
      "Newer exports that the server could not load.",
      ["model"],
      registry=registry,
    )
    prometheus.ProcessCollector(registry=registry)
    for model in models:
      for metric in (self._seconds, self._examples, self._reload_failures):
        metric.labels(model)  # a series that begins at its first event hides that event from rate()

  def add_request(self, model: str, verb: str, code: int, seconds: float) -> None:
    """Counts an answered request by its kind, its HTTP status, and its duration."""
    self._requests.labels(model, verb, code).inc()
    # How long a client took to send nothing says nothing about the server.
    if code not in _NOT_ARRIVED:
      self._seconds.labels(model).observe(seconds)

  def add_batch(self, model: str, examples: int) -> None:
    """Counts a call of the model with this number of examples."""
    self._examples.labels(model).observe(examples)

  def add_reload_failure(self, model: str) -> None:
    """Counts a newer export that the server could not load."""
    self._reload_failures.labels(model).inc()

  def set_version(self, model: str, version: str) -> None:
    """Sets the loaded version, if it is a number: a SavedModel's folder may have another name."""
    if version.isdigit():
      self._versions.labels(model).set(int(version))

  def expose(self, accept: str) -> tuple[bytes, str]:
    """Returns (content, content type) of all measurements, in a format of Prometheus.

    Args:
      accept: the header Accept of the request, with the client's formats.
    """
    from prometheus_client import exposition

    encode, content_type = exposition.choose_encoder(accept)
    return encode(self._registry), content_type
