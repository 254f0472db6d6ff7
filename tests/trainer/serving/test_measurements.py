"""What Prometheus reads of a server."""

import pytest

from trainer.serving import measurements

prometheus = pytest.importorskip("prometheus_client", reason="needs the extra [serve]")
from prometheus_client import parser  # noqa: E402


@pytest.fixture
def server():
  return measurements.Measurements(["cats"])


def read(server):
  """Returns (name, values of the labels but the model) → value."""
  content, content_type = server.expose("")
  assert content_type.startswith("text/plain")
  samples = [
    sample
    for family in parser.text_string_to_metric_families(content.decode())
    for sample in family.samples
  ]
  for sample in samples:
    assert sample.labels.pop("model", "cats") == "cats"
  return {
    (sample.name, *dict(sorted(sample.labels.items())).values()): sample.value for sample in samples
  }


def test_series_begin_before_their_first_event(server):
  found = read(server)
  assert found["octet_request_seconds_count",] == 0
  assert found["octet_batch_examples_count",] == 0
  assert found["octet_reload_failures_total",] == 0
  assert not any(name == "octet_requests_total" for name, *_ in found)


def test_events_are_counted(server):
  server.add_request("cats", "predict", 200, 0.003)
  server.add_request("cats", "predict", 200, 0.2)
  server.add_request("cats", "predict", 400, 0.004)
  server.add_batch("cats", 5)
  server.add_reload_failure("cats")
  found = read(server)
  assert found["octet_requests_total", "200", "predict"] == 2
  assert found["octet_requests_total", "400", "predict"] == 1
  seconds = [found["octet_request_seconds_bucket", le] for le in ("0.0025", "0.005", "0.25")]
  assert seconds == [0, 2, 3]
  assert [found["octet_batch_examples_bucket", le] for le in ("4.0", "8.0")] == [0, 1]
  assert found["octet_reload_failures_total",] == 1


@pytest.mark.parametrize("code", [408, 499])
def test_the_duration_of_what_did_not_arrive_is_left_out(server, code):
  server.add_request("cats", "predict", code, 30.0)
  found = read(server)
  assert found["octet_requests_total", str(code), "predict"] == 1
  assert found["octet_request_seconds_count",] == 0


def test_versions_are_numbers(server):
  server.set_version("cats", "1732283000")
  server.set_version("cats", "newest")
  assert read(server)["octet_model_version",] == 1732283000
