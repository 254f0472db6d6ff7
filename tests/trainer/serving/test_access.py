"""What every answer of the server has: an id, the one shape of errors, a line of the log."""

import logging
import re

import pytest

from tests.trainer.serving import asgi
from trainer.cli import command
from trainer.serving import access, refusals

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")


def test_failure_names_its_request_and_traceback_is_logged(caplog):
  failing = asgi.app(asgi.Service(error=ZeroDivisionError("by nought")))
  status, headers, told = asgi.refused(failing, b"{}")
  identity = headers["x-request-id"]
  assert status == 500
  assert told.endswith(f"at the request {identity}.")
  assert "nought" not in told  # what fails in the server is not the client's to read
  (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
  lines = command.LineFormatter().format(record)
  assert f"The request {identity} failed." in lines.splitlines()[0]
  assert "in run" in lines
  assert lines.endswith("ZeroDivisionError: by nought")


def test_a_failure_of_a_get_too(caplog):
  # The model of this service has no description.
  status, headers, told = asgi.refused(asgi.app(), method="GET", path="/v1/models/pets/metadata")
  assert (status, headers["x-request-id"] in told) == (500, True)
  assert "AttributeError" in command.LineFormatter().format(caplog.records[-1])


@pytest.mark.parametrize(
  ("method", "path", "status", "allow"),
  [
    ("GET", asgi.PREDICT, 405, "POST"),
    ("PUT", asgi.PREDICT, 405, "POST"),
    ("GET", "/v1/models/pets:classify", 405, "POST"),
    ("GET", "/v1/models/pets/versions/3:predict", 405, "POST"),
    ("POST", "/v1/models/pets", 405, "GET"),
    ("GET", "/v1/models/pets:regress", 404, None),
    ("GET", "/nowhere", 404, None),
    ("GET", "/v1/models/cat", 404, None),
  ],
)
def test_wrong_methods_and_paths(method, path, status, allow):
  found, headers, _ = asgi.refused(asgi.app(), method=method, path=path)
  assert (found, headers.get("allow")) == (status, allow)
  assert "x-request-id" in headers


def test_too_many_connections_are_refused():
  status, headers, told = asgi.refused(asgi.app(is_full=lambda: True), b"{}")
  assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1")
  assert "too many connections" in told


@pytest.mark.parametrize("wanted", [True, False])
def test_the_access_log(wanted, caplog):
  caplog.set_level(logging.INFO, logger="absl")
  path = "/v1/models/pets%0Aforged:predict"
  asgi.ask(asgi.app(access_log=wanted), b"{}", path=path, headers=[("X-Request-Id", "r1")])
  lines = [line for line in caplog.messages if "POST" in line]
  expected = rf"POST {re.escape(path)} 404 \d+\.\d ms [1-9]\d* bytes r1"
  assert [bool(re.fullmatch(expected, line)) for line in lines] == [True] * wanted


def test_the_access_log_has_the_duration(caplog):
  caplog.set_level(logging.INFO, logger="absl")
  times = iter([5.0, 5.0123])

  async def app(scope, receive, send):
    raise refusals.NotFoundError("no")

  layer = access.Access(app, log=True, clock=lambda: next(times))
  asgi.ask(layer, headers=[("X-Request-Id", "r1")])
  assert caplog.messages == ["POST /v1/models/pets:predict 404 12.3 ms 14 bytes r1"]
