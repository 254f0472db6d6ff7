"""A web server for models, with TensorFlow Serving's paths.

    app = make_app(Catalogue({"cats": Service(predictor, "cats")}))    # an ASGI application

    GET  /                                              a page on which one drops an image
    POST /v1/models/NAME:predict                        see `rest`
    POST /v1/models/NAME:classify
    GET  /v1/models/NAME                                which versions are loaded
    GET  /v1/models/NAME/metadata                       the signatures
    GET  /v1/models/NAME/about                          assets.extra/octet.json, without the config
    GET  /healthz, /readyz                              whether it lives, and whether it can predict
    GET  /metrics, /monitoring/prometheus/metrics       for Prometheus

NAME may be followed by /versions/N or /labels/LABEL. With several models, `/` lists them, and
/pages/NAME is the page of each.

A request that cannot be used is answered with 4xx and {"error": "one sentence"}, see `refusals`.
Each answer has an X-Request-Id, see `access`. FastAPI and uvicorn come with the extra [serve].
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from trainer.serving import access, bodies, measurements, page, refusals
from trainer.serving.catalogue import Catalogue

_MODEL = "/v1/models/{name}"
_MODELS = (_MODEL, f"{_MODEL}/versions/{{version}}", f"{_MODEL}/labels/{{label}}")
_DEFAULT_LIMITS = bodies.Limits()


def make_app(
  catalogue: Catalogue,
  limits: bodies.Limits = _DEFAULT_LIMITS,
  *,
  access_log: bool = False,
  is_full: Callable[[], bool] = lambda: False,
) -> Any:
  """Returns the FastAPI application of models.

  Args:
    catalogue: the models.
    limits: of the bodies of requests.
    access_log: see `access.Access`.
    is_full: see `access.Access`.
  """
  import fastapi
  from starlette import exceptions

  app = fastapi.FastAPI(
    title="Octet", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan(catalogue)
  )
  app.add_middleware(access.Access, log=access_log, is_full=is_full)
  for kind in (refusals.RefusedError, exceptions.HTTPException):
    app.add_exception_handler(kind, _refuse)

  # FastAPI reads from these annotations what a path gives.
  async def post(
    request: fastapi.Request,
    name: str,
    verb: str,
    version: str | None = None,
    label: str | None = None,
  ):
    return await _answer_post(catalogue, limits, request, verb, (name, version, label))

  def refuse_get(verb: str):
    _check_verb(verb)
    raise refusals.MethodError(f"The method of :{verb} is POST.")

  def status(name: str, version: str | None = None, label: str | None = None):
    return catalogue.status(name, version, label)

  def metadata(name: str, version: str | None = None, label: str | None = None):
    return catalogue.find(name, version, label).metadata()

  def about(name: str, version: str | None = None, label: str | None = None):
    return catalogue.find(name, version, label).about()

  def add(path, function, method="GET"):
    app.add_api_route(path, function, methods=[method])

  for path in _MODELS:
    add(path + ":{verb}", post, "POST")
    add(path + ":{verb}", refuse_get)  # the next path would take "NAME:predict" for a name
    add(path, status)
    add(path + "/metadata", metadata)
    add(path + "/about", about)
  add("/metrics", lambda: _measured(catalogue))
  add("/monitoring/prometheus/metrics", lambda: _measured(catalogue))
  add("/healthz", lambda: {"status": "ok"})
  add("/readyz", lambda: {"status": "ok"})
  _add_pages(add, catalogue)
  return app


def _add_pages(add, catalogue):
  from fastapi import responses

  def show(name: str):
    catalogue.require(name)
    return responses.HTMLResponse(page.html(name))

  def show_first():
    names = list(catalogue.newest)
    return show(names[0]) if len(names) == 1 else responses.HTMLResponse(page.index(names))

  add("/", show_first)
  add("/pages/{name}", show)


async def _refuse(request, error):
  del request
  return refusals.response(error)


def _lifespan(catalogue):
  """Returns the context in which FastAPI runs an application: the models' threads run there."""

  @contextlib.asynccontextmanager
  async def lifespan(app):
    del app
    catalogue.start()
    yield
    await asyncio.to_thread(catalogue.close)

  return lifespan


async def _answer_post(catalogue, limits, request, verb, asked):
  """Answers a request to predict or to classify; asked is (name, version, label)."""
  from fastapi import responses

  _check_verb(verb)
  catalogue.require(asked[0])
  start = time.perf_counter()
  try:
    service = catalogue.find(*asked)
    body = await bodies.read(request, limits)
    answer = service.predict if verb == "predict" else service.classify
    response = responses.Response(await answer(body, asked[1]), media_type="application/json")
  except Exception as error:  # each has an answer
    response = refusals.response(error)
  seconds = time.perf_counter() - start
  catalogue.newest[asked[0]].measurements.add_request(verb, response.status_code, seconds)
  return response


def _measured(catalogue):
  from fastapi import responses

  return responses.PlainTextResponse(catalogue.measurements(), media_type=measurements.CONTENT_TYPE)


def _check_verb(verb):
  if verb not in ("predict", "classify"):
    raise refusals.NotFoundError(f"There is no :{verb[:50]}: expected :predict or :classify.")
