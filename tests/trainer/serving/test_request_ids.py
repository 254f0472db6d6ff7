"""A client's request id is kept, unless it could break a line of the log."""

import contextvars
import re

import pytest

from tests.trainer.serving import asgi
from trainer.serving import request_ids

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")


@pytest.mark.parametrize(
  ("given", "kept"), [("abc-1.2_3", True), ("a b", False), ("x" * 65, False), ("é", False)]
)
def test_the_id_that_a_client_gives(given, kept):
  _, headers, _ = asgi.ask(asgi.app(), b"{}", headers=[("X-Request-Id", given)])
  assert (headers["x-request-id"] == given) is kept
  assert re.fullmatch(r"[\w.-]+", headers["x-request-id"])


def test_the_log_of_a_request_knows_its_id():
  def answer():
    request_ids.begin("abc")
    return request_ids.current()

  assert contextvars.copy_context().run(answer) == "abc"
  assert request_ids.current() == "-"
