"""The paths of TensorFlow Serving: which model, version and protocol each one names."""

import json

import pytest

from tests.trainer.serving import asgi, routed

pytest.importorskip("fastapi", reason="needs the extra [serve]")


@pytest.fixture(scope="module")
def routes():
  from trainer.serving import tf_serving_routes

  return routed.Routes(tf_serving_routes)


@pytest.mark.parametrize(
  ("path", "asked"),
  [
    ("/v1/models/pets:predict", ("pets", None, None, "predict")),
    ("/v1/models/pets:classify", ("pets", None, None, "classify")),
    ("/v1/models/pets/versions/17:predict", ("pets", "17", None, "predict")),
    ("/v1/models/pets/labels/old:classify", ("pets", None, "old", "classify")),
  ],
)
def test_a_request_asks_for_its_model_and_reader(routes, path, asked):
  status, _, body = asgi.ask(routes.app, b"body", path=path)
  assert (status, json.loads(body)) == (200, {"read": f"read_{asked[-1]}", "body": "body"})
  assert routes.asked.pop() == asked[:3]
  assert routes.counted.pop() == ("pets", asked[-1], 200)


@pytest.mark.parametrize(
  ("method", "path", "status", "message"),
  [
    ("POST", "/v1/models/pets:regress", 404, "There is no :regress: expected :predict or"),
    ("GET", "/v1/models/pets:regress", 404, "There is no :regress"),
    ("GET", "/v1/models/pets:predict", 405, "The method of :predict is POST"),
    ("GET", "/v1/models/pets/versions/1:classify", 405, "The method of :classify is POST"),
    ("POST", "/v1/models/dogs:predict", 404, "There is no model 'dogs'"),
    ("POST", "/v1/models/pets", 405, "Method Not Allowed"),
  ],
)
def test_a_request_that_fits_no_path_is_told_why(routes, method, path, status, message):
  found, _, body = asgi.ask(routes.app, b"", method=method, path=path)
  assert (found, message in body.decode()) == (status, True), body


@pytest.mark.parametrize(
  ("path", "asked"),
  [
    ("/v1/models/pets/versions/17", ("pets", "17", None)),
    ("/v1/models/pets/labels/old", ("pets", None, "old")),
    ("/v1/models/pets/labels/old/metadata", ("pets", None, "old")),
    ("/v1/models/pets/metadata", ("pets", None, None)),
    ("/v1/models/pets/versions/17/about", ("pets", "17", None)),
  ],
)
def test_questions_about_a_version_find_it(routes, monkeypatch, path, asked):
  from trainer.serving import page, tf_serving

  monkeypatch.setattr(page, "about", lambda loaded: {"about": loaded})
  monkeypatch.setattr(tf_serving, "status", lambda versions: {"status": versions})
  monkeypatch.setattr(tf_serving, "metadata", lambda name, loaded: {"metadata": [name, loaded]})
  status, _, body = asgi.ask(routes.app, b"", method="GET", path=path)
  assert routes.asked.pop() == asked
  what = path.rpartition("/")[2] if path.endswith(("metadata", "about")) else "status"
  assert (status, list(json.loads(body))) == (200, [what])


def test_the_status_of_a_model_has_all_versions(routes, monkeypatch):
  from trainer.serving import tf_serving

  monkeypatch.setattr(tf_serving, "status", lambda versions: {"status": versions})
  _, _, body = asgi.ask(routes.app, b"", method="GET", path="/v1/models/pets")
  assert json.loads(body) == {"status": ["17", "18"]}
