"""The paths of TensorFlow Serving.

    POST /v1/models/NAME:predict                        see `tf_serving`
    POST /v1/models/NAME:classify
    GET  /v1/models/NAME                                which version is loaded
    GET  /v1/models/NAME/metadata                       the signatures
    GET  /v1/models/NAME/about                          not in TensorFlow Serving, see `page.about`

/versions/N may follow NAME.
"""

import time
from typing import Any

from trainer.serving import bodies, page, refusals, tf_serving
from trainer.serving.catalogue import Catalogue

_MODEL = "/v1/models/{name}"
_READERS = {"predict": tf_serving.read_predict, "classify": tf_serving.read_classify}


def add(app: Any, catalogue: Catalogue, limits: bodies.Limits) -> None:
  """Adds the paths to a FastAPI application, see `server.make_app`."""
  import fastapi

  # FastAPI reads the parts of a path from these annotations.
  async def post(request: fastapi.Request, name: str, verb: str, version: str | None = None):
    return await _answer(request, catalogue, limits, verb, name, version)

  def refuse_get(verb: str):
    _reader(verb)
    raise refusals.MethodError(f"The method of :{verb} is POST.")

  def status(name: str, version: str | None = None):
    return tf_serving.status(catalogue.find(name, version)[1])

  def metadata(name: str, version: str | None = None):
    return tf_serving.metadata(name, catalogue.find(name, version)[1])

  def about(name: str, version: str | None = None):
    return page.about(catalogue.find(name, version)[1])

  for path in (_MODEL, f"{_MODEL}/versions/{{version}}"):
    app.add_api_route(path + ":{verb}", post, methods=["POST"])
    # The next path would take "NAME:predict" for a name.
    app.add_api_route(path + ":{verb}", refuse_get, methods=["GET"])
    app.add_api_route(path, status, methods=["GET"])
    app.add_api_route(path + "/metadata", metadata, methods=["GET"])
    app.add_api_route(path + "/about", about, methods=["GET"])


def _reader(verb):
  if verb not in _READERS:
    raise refusals.NotFoundError(f"There is no :{verb[:50]}: expected :predict or :classify.")
  return _READERS[verb]


async def _answer(request, catalogue, limits, verb, name, version):
  """Returns the response to a call of a model, even to an unusable one, and counts it.

  Raises:
    NotFoundError: there is no such verb or model. The measurements are by model, and do not count
      it.
  """
  from fastapi import responses

  read = _reader(verb)
  catalogue.require(name)
  start = time.perf_counter()
  try:
    # Before the body arrives: a wrong version costs no transfer, and the request keeps its version
    # although a newer export may load meanwhile.
    service, loaded = catalogue.find(name, version)
    body = await bodies.read(request, limits)
    content = await service.run(read, body, loaded)
    response = responses.Response(content, media_type="application/json")
  except Exception as error:  # each has an answer
    response = refusals.response(error)
  seconds = time.perf_counter() - start
  catalogue.measurements.add_request(name, verb, response.status_code, seconds)
  return response
