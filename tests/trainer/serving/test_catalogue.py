"""Several models and labelled versions in one server."""

import json

import pytest

from tests.trainer.serving import asgi

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")


@pytest.fixture
def app():
  """Cats of version 5, of which 3 is stable, and dogs of version 5."""
  cats = asgi.Service("cats", version="5", answer=b"cats 5")
  stable = asgi.Service("cats", version="3", answer=b"cats 3")
  dogs = asgi.Service("dogs", version="5", answer=b"dogs 5")
  return asgi.app(cats, dogs, labelled={("cats", "stable"): stable})


@pytest.mark.parametrize(
  ("path", "expected"),
  [
    ("cats", b"cats 5"),
    ("dogs", b"dogs 5"),
    ("cats/versions/5", b"cats 5"),
    ("cats/versions/3", b"cats 3"),
    ("cats/labels/stable", b"cats 3"),
  ],
)
def test_paths(app, path, expected):
  for verb in ("predict", "classify"):
    assert asgi.ask(app, b"{}", path=f"/v1/models/{path}:{verb}")[::2] == (200, expected)
  if "labels" not in path:  # which the Open Inference Protocol has not
    assert asgi.ask(app, b"{}", path=f"/v2/models/{path}/infer")[::2] == (200, expected)


@pytest.mark.parametrize(
  ("path", "message"),
  [
    ("birds", "There is no model 'birds' here; there are 'cats', 'dogs'."),
    ("cats/versions/4", "The server has not loaded version 4; it has 3, 5."),
    ("dogs/versions/3", "The server has not loaded version 3; it has 5."),
    ("dogs/labels/stable", "No version of 'dogs' has the label 'stable' (--version_label)."),
  ],
)
def test_what_is_not_there(app, path, message):
  assert asgi.refused(app, b"{}", path=f"/v1/models/{path}:predict")[::2] == (404, message)
  if "labels" not in path:
    assert asgi.refused(app, b"{}", path=f"/v2/models/{path}/infer")[::2] == (404, message)
  for end in ("", "/metadata", "/about"):
    answer = asgi.refused(app, method="GET", path=f"/v1/models/{path}{end}")
    assert answer[::2] == (404, message)


@pytest.mark.parametrize(
  ("path", "versions"),
  [
    ("cats", ["3", "5"]),
    ("dogs", ["5"]),
    ("cats/versions/5", ["5"]),
    ("cats/labels/stable", ["3"]),
  ],
)
def test_the_status_has_all_versions(app, path, versions):
  _, _, status = asgi.ask(app, method="GET", path=f"/v1/models/{path}")
  assert [one["version"] for one in json.loads(status)["model_version_status"]] == versions


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
