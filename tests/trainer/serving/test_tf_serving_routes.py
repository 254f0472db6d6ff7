"""The paths of TensorFlow Serving: which model, version and protocol each one names."""

import json

import pytest

from tests.trainer.serving import asgi, routed
from trainer import errors
from trainer.serving import batching, refusals

pytest.importorskip("fastapi", reason="needs the extra [serve]")


@pytest.fixture(scope="module")
def routes():
  from trainer.serving import tf_serving_routes

  return routed.Routes(tf_serving_routes)


@pytest.mark.parametrize(
  ("path", "asked"),
  [
    ("/v1/models/pets:predict", ("pets", None, "predict")),
    ("/v1/models/pets:classify", ("pets", None, "classify")),
    ("/v1/models/pets/versions/17:predict", ("pets", "17", "predict")),
  ],
)
def test_a_request_asks_for_its_model_and_reader(routes, path, asked):
  status, _, body = asgi.ask(routes.app, b"body", path=path)
  assert (status, json.loads(body)) == (200, {"read": f"read_{asked[-1]}", "body": "body"})
  assert routes.asked.pop() == asked[:2]
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
    ("/v1/models/pets/versions/17", ("pets", "17")),
    ("/v1/models/pets/metadata", ("pets", None)),
    ("/v1/models/pets/versions/17/about", ("pets", "17")),
  ],
)
def test_questions_about_a_version_find_it(routes, monkeypatch, path, asked):
  from trainer.serving import page, tf_serving

  monkeypatch.setattr(page, "about", lambda loaded: {"about": loaded})
  monkeypatch.setattr(tf_serving, "status", lambda loaded: {"status": loaded})
  monkeypatch.setattr(tf_serving, "metadata", lambda name, loaded: {"metadata": [name, loaded]})
  status, _, body = asgi.ask(routes.app, b"", method="GET", path=path)
  assert routes.asked.pop() == asked
  what = path.rpartition("/")[2] if path.endswith(("metadata", "about")) else "status"
  assert (status, list(json.loads(body))) == (200, [what])


@pytest.mark.parametrize(
  ("error", "status", "text"),
  [
    (errors.InputError("the feature is missing"), 400, b"the feature is missing"),
    (batching.BusyError("too many wait"), 503, b"too many wait"),
    (refusals.TooLargeError("too large"), 413, b"too large"),
    (ZeroDivisionError("secret"), 500, b"The model failed"),
  ],
)
def test_each_error_is_an_answer_and_counts(routes, monkeypatch, error, status, text):
  monkeypatch.setattr(routes, "error", error)
  found, _, body = asgi.ask(routes.app, b"body", path="/v1/models/pets:predict")
  assert (found, text in body, b"secret" in body) == (status, True, False)
  assert routes.counted.pop() == ("pets", "predict", status)


def test_a_wrong_version_is_refused_before_the_body_arrives(routes, monkeypatch):
  def find(name, version):
    raise refusals.NotFoundError("There is no such version.")

  monkeypatch.setattr(routes, "find", find)
  found, _, _ = asgi.ask(routes.app, "sends no more", path="/v1/models/pets/versions/2:predict")
  assert found == 404
  assert routes.counted.pop() == ("pets", "predict", 404)


def test_an_unknown_model_counts_nowhere(routes):
  routes.counted.clear()
  assert asgi.ask(routes.app, b"", path="/v1/models/dogs:predict")[0] == 404
  assert not routes.counted
