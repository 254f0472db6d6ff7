"""The paths of TensorFlow Serving.

    POST /v1/models/NAME:predict                        see `tf_serving`
    POST /v1/models/NAME:classify
    GET  /v1/models/NAME                                which versions are loaded
    GET  /v1/models/NAME/metadata                       the signatures
    GET  /v1/models/NAME/about                          not in TensorFlow Serving, see `page.about`

/versions/N or /labels/LABEL may follow NAME.
"""

from typing import Any

from trainer.serving import bodies, page, posts, refusals, tf_serving
from trainer.serving.catalogue import Catalogue

_MODEL = "/v1/models/{name}"
_MODELS = (_MODEL, f"{_MODEL}/versions/{{version}}", f"{_MODEL}/labels/{{label}}")
_READERS = {"predict": tf_serving.read_predict, "classify": tf_serving.read_classify}


def add(app: Any, catalogue: Catalogue, limits: bodies.Limits) -> None:
  """Adds the paths to a FastAPI application, see `server.make_app`."""
  import fastapi

  # FastAPI reads the parts of a path from these annotations.
  async def post(
    request: fastapi.Request,
    name: str,
    verb: str,
    version: str | None = None,
    label: str | None = None,
  ):
    read = _reader(verb)
    return await posts.answer(request, catalogue, limits, verb, read, (name, version, label))

  def refuse_get(verb: str):
    _reader(verb)
    raise refusals.MethodError(f"The method of :{verb} is POST.")

  def status(name: str, version: str | None = None, label: str | None = None):
    if version is None and label is None:
      return tf_serving.status(catalogue.versions(name))
    return tf_serving.status([catalogue.find(name, version, label).loaded])

  def metadata(name: str, version: str | None = None, label: str | None = None):
    return tf_serving.metadata(name, catalogue.find(name, version, label).loaded)

  def about(name: str, version: str | None = None, label: str | None = None):
    return page.about(catalogue.find(name, version, label).loaded)

  for path in _MODELS:
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
