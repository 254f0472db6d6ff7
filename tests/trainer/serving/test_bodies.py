"""Bodies of requests: clients that are slow or hang up, gzip, sizes."""

import gzip
import logging
import re

import pytest

from tests.trainer.serving import asgi

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")

BODY = b'{"instances": [1, 2]}' * 20
GZIP = [("Content-Encoding", "gzip")]


def counted(app, code):
  """Whether one request was counted, with this status and without its seconds."""
  text = asgi.ask(app, method="GET", path="/metrics")[2].decode()
  assert 'octet_request_seconds_count{model="pets"} 0.0' in text  # the client's time, not ours
  requests = [line for line in text.splitlines() if line.startswith("octet_requests_total")]
  return requests == [f'octet_requests_total{{code="{code}",model="pets",verb="predict"}} 1.0']


@pytest.mark.parametrize("parts", [["hangs up"], [b"{", "hangs up"]])
def test_a_client_that_hangs_up_is_no_failure(parts, caplog):
  app = asgi.app()
  status, _, _ = asgi.refused(app, *parts)
  assert status == 499
  assert counted(app, 499)
  assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_body_that_does_not_arrive_in_time(caplog):
  app = asgi.app(read_secs=0.001)
  status, headers, told = asgi.refused(app, b"{", "sends no more")
  assert (status, headers["connection"]) == (408, "close")
  assert told == "The body did not arrive within 0.001 s (--read_secs)."
  assert counted(app, 408)
  assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", ["gzip", "x-gzip", "GZIP", "identity"])
def test_a_body_as_it_is_and_a_gzip(name):
  sent = BODY if name == "identity" else gzip.compress(BODY)
  headers = [("Content-Encoding", name)]
  status, _, answer = asgi.ask(asgi.app(), sent[:9], sent[9:], headers=headers)
  assert (status, answer) == (200, BODY)


@pytest.mark.parametrize(
  ("body", "encoding", "status", "message"),
  [
    (b"{}", "gzip", 400, "The body is no gzip: .*"),
    (b"", "gzip", 400, "The body is no whole gzip: its end is missing."),
    (gzip.compress(BODY)[:-3], "gzip", 400, "The body is no whole gzip: its end is missing."),
    (gzip.compress(BODY) + b"x", "gzip", 400, "The body has more after the end of its gzip."),
    (b"{}", "br", 415, "Content-Encoding is 'br': expected gzip, or no encoding."),
    (gzip.compress(bytes(1 << 21)), "gzip", 413, r"The body is larger than 1 MiB after gzip .*"),
  ],
  ids=["no gzip", "nothing", "cut off", "more", "another encoding", "large when inflated"],
)
def test_what_is_no_gzip_or_too_large(body, encoding, status, message):
  headers = [("Content-Encoding", encoding)]
  found, answered, told = asgi.refused(asgi.app(max_bytes=1 << 20), body, headers=headers)
  assert found == status
  assert re.fullmatch(message, told)
  assert answered.get("accept-encoding") == ("gzip" if status == 415 else None)


def test_a_body_of_just_the_limit():
  body = b"x" * 100
  for headers, sent in (((), body), (GZIP, gzip.compress(body))):
    assert asgi.ask(asgi.app(max_bytes=100), sent, headers=headers)[0] == 200
    assert asgi.ask(asgi.app(max_bytes=99), sent, headers=headers)[0] == 413
