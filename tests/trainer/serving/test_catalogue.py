"""Several models in one server."""

import json

import pytest

from tests.trainer.serving import asgi

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")


@pytest.fixture
def app():
  """Cats of version 5, and dogs of version 3."""
  cats = asgi.Service("cats", version="5", answer=b"cats 5")
  dogs = asgi.Service("dogs", version="3", answer=b"dogs 3")
  return asgi.app(cats, dogs)


@pytest.mark.parametrize(
  ("path", "expected"), [("cats", b"cats 5"), ("dogs", b"dogs 3"), ("cats/versions/5", b"cats 5")]
)
def test_paths(app, path, expected):
  for verb in ("predict", "classify"):
    assert asgi.ask(app, b"{}", path=f"/v1/models/{path}:{verb}")[::2] == (200, expected)


@pytest.mark.parametrize(
  ("path", "message"),
  [
    ("birds", "There is no model 'birds' here; there are 'cats', 'dogs'."),
    ("cats/versions/4", "The server has not loaded version 4; it has 5."),
  ],
)
def test_what_is_not_there(app, path, message):
  assert asgi.refused(app, b"{}", path=f"/v1/models/{path}:predict")[::2] == (404, message)
  for end in ("", "/metadata", "/about"):
    answer = asgi.refused(app, method="GET", path=f"/v1/models/{path}{end}")
    assert answer[::2] == (404, message)


def test_the_status_has_the_version(app):
  for path in ("dogs", "dogs/versions/3"):
    _, _, status = asgi.ask(app, method="GET", path=f"/v1/models/{path}")
    assert [one["version"] for one in json.loads(status)["model_version_status"]] == ["3"]


def test_the_figures_are_by_model(app):
  asgi.ask(app, b"{}", path="/v1/models/dogs:predict")
  _, _, text = asgi.ask(app, method="GET", path="/metrics")
  lines = text.decode().splitlines()
  assert 'octet_requests_total{code="200",model="dogs",verb="predict"} 1.0' in lines
  assert 'octet_request_seconds_count{model="cats"} 0.0' in lines
  assert 'octet_model_version{model="cats"} 5.0' in lines
  assert lines.count("# TYPE octet_model_version gauge") == 1  # Prometheus refuses a second one


def test_pages(app):
  _, _, index = asgi.ask(app, method="GET", path="/")
  assert b'<a href="/pages/cats">cats</a>' in index
  assert b'<a href="/pages/dogs">dogs</a>' in index
  _, _, dogs = asgi.ask(app, method="GET", path="/pages/dogs")
  assert b'const NAME = "dogs"' in dogs
  assert asgi.refused(app, method="GET", path="/pages/birds")[0] == 404
