"""Answers to requests that call a model, and their measurements."""

import asyncio
import types

import pytest

from trainer import errors
from trainer.serving import batching, bodies, calls, posts, refusals

pytest.importorskip("fastapi", reason="needs the extra [serve]")


class Catalogue:
  """One model "cats" in version 1."""

  def __init__(self, run):
    self.counted = []
    self.measurements = types.SimpleNamespace(
      add_request=lambda *request: self.counted.append(request)
    )
    self.run = run

  def require(self, name):
    if name != "cats":
      raise refusals.NotFoundError(f"There is no model {name!r} here.")

  def find(self, name, version, label):
    if version not in (None, "1"):
      raise refusals.NotFoundError("There is no such version.")
    return types.SimpleNamespace(run=self.run), "loaded"


@pytest.fixture
def answered(monkeypatch):
  """(response, measured requests) of a request for (name, version)."""
  read = []

  async def body(request, limits):
    read.append(request)
    return b"body"

  monkeypatch.setattr(bodies, "read", body)

  def answered(error=None, name="cats", version=None):
    async def run(*arguments):
      assert arguments == ("reader", b"body", "loaded")
      if error:
        raise error
      return calls.Answer(b"{}", headers={"X-Size": "2"})

    catalogue = Catalogue(run)
    response = asyncio.run(
      posts.answer("request", catalogue, None, "predict", "reader", (name, version, None))
    )
    return response, [request[:3] for request in catalogue.counted], len(read)

  return answered


def test_an_answer_has_the_body_and_the_headers_of_the_protocol(answered):
  response, counted, _ = answered()
  assert (response.status_code, response.body) == (200, b"{}")
  assert (response.media_type, response.headers["x-size"]) == ("application/json", "2")
  assert counted == [("cats", "predict", 200)]


@pytest.mark.parametrize(
  ("error", "status", "text"),
  [
    (errors.InputError("the feature is missing"), 400, b"the feature is missing"),
    (batching.BusyError("too many wait"), 503, b"too many wait"),
    (refusals.TooLargeError("too large"), 413, b"too large"),
    (ZeroDivisionError("secret"), 500, b"The model failed"),
  ],
)
def test_each_error_is_an_answer_and_counts(answered, error, status, text):
  response, counted, _ = answered(error)
  assert response.status_code == status
  assert text in response.body
  assert b"secret" not in response.body
  assert counted == [("cats", "predict", status)]


def test_a_wrong_version_is_refused_before_the_body_arrives(answered):
  response, counted, read = answered(version="2")
  assert (response.status_code, read) == (404, 0)
  assert counted == [("cats", "predict", 404)]


def test_an_unknown_model_counts_nowhere(answered):
  with pytest.raises(refusals.NotFoundError, match="'dogs'"):
    answered(name="dogs")
