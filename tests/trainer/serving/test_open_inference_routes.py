"""The paths of the Open Inference Protocol: which model and version each one names."""

import json

import pytest

from tests.trainer.serving import asgi, routed
from trainer.serving import open_inference

pytest.importorskip("fastapi", reason="needs the extra [serve]")


@pytest.fixture(scope="module")
def routes():
  from trainer.serving import open_inference_routes

  return routed.Routes(open_inference_routes)


@pytest.mark.parametrize(
  ("path", "version"),
  [("/v2/models/pets/infer", None), ("/v2/models/pets/versions/17/infer", "17")],
)
@pytest.mark.parametrize("size", [None, "12"])
def test_a_request_asks_for_its_version_and_its_json_size(routes, path, version, size):
  headers = [] if size is None else [(open_inference.JSON_SIZE, size)]
  status, _, body = asgi.ask(routes.app, b"body", path=path, headers=headers)
  assert (status, json.loads(body)) == (200, {"read": "read_infer", "body": "body"})
  assert routes.asked.pop() == ("pets", version, None)
  assert routes.counted.pop() == ("pets", "infer", 200)
  assert routes.readers.pop().keywords == {"model": "pets", "json_size": size}


def test_metadata_are_of_the_asked_version_and_list_all(routes, monkeypatch):
  monkeypatch.setattr(open_inference, "metadata", lambda *parts: list(parts))
  _, _, body = asgi.ask(routes.app, b"", method="GET", path="/v2/models/pets/versions/17")
  assert json.loads(body) == ["pets", ["17", "18"], "loaded"]
  assert routes.asked.pop() == ("pets", "17", None)


@pytest.mark.parametrize(
  ("path", "status", "body"),
  [
    ("/v2/models/pets/ready", 200, {"name": "pets", "ready": True}),
    ("/v2/models/dogs/ready", 404, {"error": "There is no model 'dogs' here."}),
    ("/v2/health/live", 200, {"live": True}),
    ("/v2/health/ready", 200, {"ready": True}),
    ("/v2", 200, open_inference.server_metadata()),
  ],
)
def test_questions_for_health(routes, path, status, body):
  found, _, text = asgi.ask(routes.app, b"", method="GET", path=path)
  assert (found, json.loads(text)) == (status, body)
