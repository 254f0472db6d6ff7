"""A web server for models, with the paths of TensorFlow Serving.

    app = make_app(catalogue)           # an ASGI application

    /v1/...                                             see `tf_serving_routes`
    GET  /                                              a page on which people try the model
    GET  /healthz, /readyz                              whether it lives, and whether it can predict
    GET  /metrics, /monitoring/prometheus/metrics       for Prometheus

With several models, `/` lists them, and /pages/NAME is the page of each.

An unusable request gets a status 4xx and {"error": "one sentence"}, see `refusals`. FastAPI and
uvicorn come with the extra [serve].
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from trainer.serving import access, bodies, page, refusals, tf_serving_routes
from trainer.serving.catalogue import Catalogue

_DEFAULT_LIMITS = bodies.Limits()


def make_app(
  catalogue: Catalogue,
  limits: bodies.Limits = _DEFAULT_LIMITS,
  *,
  is_full: Callable[[], bool] = lambda: False,
) -> Any:
  """Returns the FastAPI application of models.

  Args:
    catalogue: the models.
    limits: of the bodies of requests.
    is_full: see `access.Access`.
  """
  import fastapi
  from starlette import exceptions

  app = fastapi.FastAPI(
    title="Octet", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan(catalogue)
  )
  app.add_middleware(access.Access, is_full=is_full)
  for kind in (refusals.RefusedError, exceptions.HTTPException):
    app.add_exception_handler(kind, _refuse)
  tf_serving_routes.add(app, catalogue, limits)
  _add_own(app, catalogue)
  return app


def _add_own(app, catalogue):
  """Adds the paths that belong to no protocol."""
  import fastapi
  from fastapi import responses

  def show(name: str):
    catalogue.require(name)
    return responses.HTMLResponse(page.html(name))

  def show_first():
    names = list(catalogue.models)
    return show(names[0]) if len(names) == 1 else responses.HTMLResponse(page.index(names))

  def metrics(request: fastapi.Request):
    content, content_type = catalogue.measure(request.headers.get("accept", ""))
    return responses.Response(content, media_type=content_type)

  def health():
    return {"status": "ok"}

  for path, function in {
    "/": show_first,
    "/pages/{name}": show,
    "/metrics": metrics,
    "/monitoring/prometheus/metrics": metrics,
    "/healthz": health,
    "/readyz": health,
  }.items():
    app.add_api_route(path, function, methods=["GET"])


async def _refuse(request, error):
  del request
  return refusals.response(error)


def _lifespan(catalogue):
  """Returns the context around an application of FastAPI: the models' threads run there."""

  @contextlib.asynccontextmanager
  async def lifespan(app):
    del app
    catalogue.start()
    yield
    # In a thread: the event loop sends the last answers while `close` waits for the batchers.
    await asyncio.to_thread(catalogue.close)

  return lifespan
