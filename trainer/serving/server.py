"""A web server for models, with TensorFlow Serving's paths.

    app = make_app(Service(predictor, "cifar10"))       # an ASGI application

    GET  /                                              a page on which one drops an image
    POST /v1/models/NAME:predict                        see `rest`; also /versions/N:predict
    POST /v1/models/NAME:classify
    GET  /v1/models/NAME                                which version is loaded
    GET  /v1/models/NAME/metadata                       the signatures
    GET  /v1/models/NAME/about                          assets.extra/octet.json, without the config
    GET  /healthz, /readyz                              whether it lives, and whether it can predict
    GET  /metrics, /monitoring/prometheus/metrics       for Prometheus

A request that cannot be used is answered with 4xx and {"error": "one sentence"}, see `refusals`.
Each answer has an X-Request-Id, see `access`. FastAPI and uvicorn come with the extra [serve].
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from trainer.serving import access, bodies, measurements, page, refusals
from trainer.serving.service import Service

_DEFAULT_LIMITS = bodies.Limits()


def make_app(
  service: Service,
  limits: bodies.Limits = _DEFAULT_LIMITS,
  *,
  access_log: bool = False,
  is_full: Callable[[], bool] = lambda: False,
) -> Any:
  """Returns the FastAPI application of a service.

  Args:
    service: the model.
    limits: of the bodies of requests.
    access_log: see `access.Access`.
    is_full: see `access.Access`.
  """
  import fastapi
  from starlette import exceptions

  app = fastapi.FastAPI(
    title="Octet", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan(service)
  )
  app.add_middleware(access.Access, log=access_log, is_full=is_full)
  for kind in (refusals.RefusedError, exceptions.HTTPException):
    app.add_exception_handler(kind, _refuse)

  # FastAPI reads from these annotations what a path gives.
  async def post(request: fastapi.Request, name: str, verb: str, version: str | None = None):
    return await _answer_post(service, limits, request, name, verb, version)

  def refuse_get(verb: str):
    _check_verb(verb)
    raise refusals.MethodError(f"The method of :{verb} is POST.")

  def add(path, function, method="GET"):
    app.add_api_route(path, function, methods=[method])

  for path in ("/v1/models/{name}/versions/{version}:{verb}", "/v1/models/{name}:{verb}"):
    add(path, post, "POST")
    add(path, refuse_get)  # /v1/models/{name} would take "NAME:predict" for a name
  add("/v1/models/{name}", _for_model(service, service.status))
  add("/v1/models/{name}/metadata", _for_model(service, service.metadata))
  add("/v1/models/{name}/about", _for_model(service, service.about))
  add("/metrics", lambda: _measured(service))
  add("/monitoring/prometheus/metrics", lambda: _measured(service))
  add("/healthz", lambda: {"status": "ok"})
  add("/readyz", lambda: {"status": "ok"})
  add("/", lambda: fastapi.responses.HTMLResponse(page.html(service.name)))
  return app


async def _refuse(request, error):
  del request
  return refusals.response(error)


def _lifespan(service):
  """Returns the context in which FastAPI runs an application: the service's threads run there."""

  @contextlib.asynccontextmanager
  async def lifespan(app):
    del app
    service.start()
    yield
    await asyncio.to_thread(service.close)

  return lifespan


async def _answer_post(service, limits, request, name, verb, version):
  """Answers a request to predict or to classify."""
  from fastapi import responses

  _check_verb(verb)
  start = time.perf_counter()
  try:
    _check_name(name, service)
    body = await bodies.read(request, limits)
    answer = service.predict if verb == "predict" else service.classify
    response = responses.Response(await answer(body, version), media_type="application/json")
  except Exception as error:  # each has an answer
    response = refusals.response(error)
  seconds = time.perf_counter() - start
  service.measurements.add_request(verb, response.status_code, seconds)
  return response


def _for_model(service, function):
  """Returns the handler of a GET request, which answers with what a function returns."""

  def handle(name: str):
    _check_name(name, service)
    return function()

  return handle


def _measured(service):
  from fastapi import responses

  text = service.measurements.text(service.predictor.loaded.version)
  return responses.PlainTextResponse(text, media_type=measurements.CONTENT_TYPE)


def _check_verb(verb):
  if verb not in ("predict", "classify"):
    raise refusals.NotFoundError(f"There is no :{verb[:50]}: expected :predict or :classify.")


def _check_name(name, service):
  if name != service.name:
    raise refusals.NotFoundError(
      f"There is no model {name[:50]!r} here; there is {service.name!r}."
    )
