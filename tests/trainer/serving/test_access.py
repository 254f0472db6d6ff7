"""What every answer of the server has: the one shape of errors."""

import logging

import pytest

from tests.trainer.serving import asgi
from trainer.cli import command
from trainer.serving import access

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")


def test_a_failure_is_told_and_its_traceback_is_logged(caplog):
  failing = asgi.app(asgi.Service(error=ZeroDivisionError("by nought")))
  status, _, told = asgi.refused(failing, b"{}")
  assert (status, told) == (500, "The model failed. The server's log says why.")
  (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
  lines = command.LineFormatter().format(record)
  assert "A request failed." in lines.splitlines()[0]
  assert "in run" in lines
  assert lines.endswith("ZeroDivisionError: by nought")


def test_a_failure_of_a_get_too(caplog):
  # The model of this service has no description.
  status, _, told = asgi.refused(asgi.app(), method="GET", path="/v1/models/pets/metadata")
  assert (status, told) == (500, "The model failed. The server's log says why.")
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


def test_too_many_connections_are_refused():
  status, headers, told = asgi.refused(asgi.app(is_full=lambda: True), b"{}")
  assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1")
  assert "too many connections" in told


def test_a_failure_after_the_start_of_an_answer_is_raised():
  async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ZeroDivisionError

  with pytest.raises(ZeroDivisionError):
    asgi.ask(access.Access(app))
