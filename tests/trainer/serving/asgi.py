"""An app around a service without a model, and requests to it as a web server gives them."""

import asyncio
import json
import types

from trainer.serving import bodies, catalogue, measurements, server

PREDICT = "/v1/models/pets:predict"


class Service:
  """Answers with the body that it gets, or raises an error; or with a text of its own."""

  def __init__(self, name="pets", error=None, version="1", answer=None):
    self.name, self._error, self._answer = name, error, answer
    self.predictor = types.SimpleNamespace(loaded=types.SimpleNamespace(version=version))

  def start(self):
    pass

  def close(self):
    pass

  async def run(self, read, body, loaded):
    del read, loaded
    if self._error:
      raise self._error
    return self._answer or body


def app(*services, max_bytes=1 << 20, read_secs=30.0, **options):
  """Returns the app of services, or of a Service alone."""
  named = {service.name: service for service in services or [Service()]}
  models = catalogue.Catalogue(named, measurements.Measurements(named))
  return server.make_app(models, bodies.Limits(max_bytes, read_secs), **options)


def received(*parts):
  """Returns ASGI's `receive` of a client that sends these parts of a body.

  The last part may be "hangs up" or "sends no more".
  """
  waiting = list(parts)

  async def receive():
    part = waiting.pop(0)
    if part == "hangs up":
      return {"type": "http.disconnect"}
    if part == "sends no more":
      await asyncio.Event().wait()
    return {"type": "http.request", "body": part, "more_body": bool(waiting)}

  return receive


def ask(application, *parts, method="POST", path=PREDICT, headers=()):
  """Returns (status, headers, body) of the answer."""
  sent = []

  async def send(message):
    sent.append(message)

  scope = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": method,
    "scheme": "http",
    "path": path,
    "raw_path": path.encode(),
    "query_string": b"",
    "root_path": "",
    "headers": [(key.lower().encode(), value.encode()) for key, value in headers],
  }
  asyncio.run(application(scope, received(*(parts or (b"",))), send))
  start, *rest = sent
  answered = {key.decode().lower(): value.decode() for key, value in start["headers"]}
  return start["status"], answered, b"".join(message.get("body", b"") for message in rest)


def refused(*args, **keywords):
  """Returns (status, headers, sentence) of an answer that must have the one shape of errors."""
  status, headers, body = ask(*args, **keywords)
  answer = json.loads(body)
  assert status >= 400
  assert list(answer) == ["error"]
  assert headers["content-type"] == "application/json"
  assert "\n" not in answer["error"]
  return status, headers, answer["error"]
