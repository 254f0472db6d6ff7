"""The paths of the Open Inference Protocol, version 2.

    POST /v2/models/NAME/infer                          see `open_inference`
    GET  /v2/models/NAME                                the inputs and outputs of serving_default
    GET  /v2/models/NAME/ready                          whether it can predict
    GET  /v2                                            the server, and its extensions
    GET  /v2/health/live, /v2/health/ready              whether it lives, and whether it can predict

/versions/N may follow NAME.
"""

import functools
from typing import Any

from trainer.serving import bodies, open_inference, posts
from trainer.serving.catalogue import Catalogue

_MODEL = "/v2/models/{name}"


def add(app: Any, catalogue: Catalogue, limits: bodies.Limits) -> None:
  """Adds the paths to a FastAPI application, see `server.make_app`."""
  import fastapi

  # FastAPI reads the parts of a path from these annotations.
  async def infer(request: fastapi.Request, name: str, version: str | None = None):
    read = functools.partial(
      open_inference.read_infer, model=name, json_size=request.headers.get(open_inference.JSON_SIZE)
    )
    return await posts.answer(request, catalogue, limits, "infer", read, (name, version, None))

  def metadata(name: str, version: str | None = None):
    loaded = catalogue.find(name, version).loaded
    return open_inference.metadata(name, catalogue.versions(name), loaded)

  def ready(name: str, version: str | None = None):
    catalogue.find(name, version)
    return {"name": name, "ready": True}

  for path in (_MODEL, f"{_MODEL}/versions/{{version}}"):
    app.add_api_route(path + "/infer", infer, methods=["POST"])
    app.add_api_route(path, metadata, methods=["GET"])
    app.add_api_route(path + "/ready", ready, methods=["GET"])
  # The server listens at the port only after it has loaded all models.
  app.add_api_route("/v2/health/live", lambda: {"live": True}, methods=["GET"])
  app.add_api_route("/v2/health/ready", lambda: {"ready": True}, methods=["GET"])
  app.add_api_route("/v2", open_inference.server_metadata, methods=["GET"])
