"""A web server for one model, with TensorFlow Serving's paths.

    app = make_app(Service(predictor, "cifar10"))       # an ASGI application

    GET  /                                              a page on which one drops an image
    POST /v1/models/NAME:predict                        see `rest`; also /versions/N:predict
    POST /v1/models/NAME:classify
    GET  /v1/models/NAME                                which version is loaded
    GET  /v1/models/NAME/metadata                       the signatures
    GET  /v1/models/NAME/about                          assets.extra/octet.json, without the config
    GET  /healthz, /readyz                              whether it lives, and whether it can predict
    GET  /metrics, /monitoring/prometheus/metrics       for Prometheus

A request that cannot be used is answered with 4xx and {"error": "one sentence"}. FastAPI and
uvicorn come with the extra [serve].
"""

import asyncio
import contextlib
import dataclasses
import threading
import time
from typing import Any

from absl import logging

from trainer import errors
from trainer.outputs import signatures
from trainer.serving import batching, measurements, page, predictor, rest

_ABOUT = ("model", "global_step", "exported", "class_names", "metrics", "decodes", "versions")
_LARGE = 1 << 16  # bytes; larger bodies are parsed in a thread, so that other requests go on


@dataclasses.dataclass(eq=False)
class Service:
  """A model that is served.

  Attributes:
    predictor: predicts.
    name: the model's name in the URLs.
    max_batch: see max_rows of `batching.Batcher`.
    batch_wait_secs: see max_wait_secs of `batching.Batcher`.
    reload_secs: seconds between two checks for a newer export; 0 for none.
    max_body: the most bytes in the body of a request.
  """

  predictor: predictor.Predictor
  name: str = "model"
  _: dataclasses.KW_ONLY
  max_batch: int = 64
  batch_wait_secs: float = 0.0
  reload_secs: float = 5.0
  max_body: int = 16 << 20

  def __post_init__(self) -> None:
    self.measurements = measurements.Measurements()
    self._batcher = batching.Batcher(
      self.max_batch, self.batch_wait_secs, observe=self.measurements.add_batch
    )
    self._closing = threading.Event()
    self._failed: str | None = None  # the last error of a reload, which is logged once
    self._reloader: threading.Thread | None = None

  def start(self) -> None:
    """Starts the thread that looks for newer exports."""
    if self.reload_secs:
      self._reloader = threading.Thread(
        target=self._reload_until_closed, name="reloader", daemon=True
      )
      self._reloader.start()

  def close(self) -> None:
    """Ends the threads."""
    self._closing.set()
    if self._reloader:
      self._reloader.join()
    self._batcher.close()

  def reload(self) -> None:
    """Loads a newer export if there is one. A failure is logged and counted."""
    try:
      self.predictor.reload_if_newer()
      self._failed = None
    # An export may be broken in any way. The server goes on with the former model.
    except Exception as error:
      if str(error) != self._failed:
        self._failed = str(error)
        self.measurements.add_reload_failure()
        logging.error("A newer export cannot be used; the former one stays. %s", error)

  async def predict(self, body: bytes, version: str | None = None) -> bytes:
    """Answers a request to :predict.

    Args:
      body: of the request.
      version: from the URL; None for the loaded one.

    Returns:
      The body of the answer.

    Raises:
      NotFoundError: this version is not loaded.
      InputError: the request cannot be used.
      BusyError: too many examples are waiting.
    """
    loaded = self._loaded(version)
    request = await _aside(body, rest.predict_request, body, loaded)
    outputs = await self._batcher.run(loaded.engines[request.signature], request.features)
    return await _aside(body, rest.predict_answer, request, outputs)

  async def classify(self, body: bytes, version: str | None = None) -> bytes:
    """Answers a request to :classify; for Args, Returns and Raises see `predict`."""
    loaded = self._loaded(version)
    request = await _aside(body, rest.classify_request, body, loaded)
    outputs = await self._batcher.run(loaded.engines[request.signature], request.features)
    return rest.classify_answer(outputs, loaded.class_names)

  def status(self) -> dict[str, Any]:
    """Returns which version is loaded, as TensorFlow Serving tells it."""
    loaded = {
      "version": self.predictor.loaded.version,
      "state": "AVAILABLE",
      "status": {"error_code": "OK", "error_message": ""},
    }
    return {"model_version_status": [loaded]}

  def metadata(self) -> dict[str, Any]:
    """Returns the signatures, as TensorFlow Serving tells them."""
    return rest.metadata(self.name, self.predictor.loaded)

  def about(self) -> dict[str, Any]:
    """Returns what the page shows of the model."""
    loaded = self.predictor.loaded
    # The page can send one image, so the model must take an image and nothing else.
    takes_image = list(loaded.decoders) == list(loaded.inputs) and len(loaded.inputs) == 1
    has_bytes = signatures.FROM_BYTES in loaded.description["signatures"]
    return {
      **{key: loaded.description.get(key) for key in _ABOUT},
      "engine": loaded.engine.name,
      "version": loaded.version,
      "image": next(iter(loaded.inputs)) if takes_image and has_bytes else None,
    }

  def _loaded(self, version):
    loaded = self.predictor.loaded
    if version not in (None, loaded.version):
      raise NotFoundError(f"Version {version} is not loaded; {loaded.version} is.")
    return loaded

  def _reload_until_closed(self):
    while not self._closing.wait(self.reload_secs):
      self.reload()


class NotFoundError(Exception):
  """There is no such model, version or path."""


async def _aside(body, function, *arguments):
  """Calls a function, in a thread if its body is large or has files to decode."""
  # A thread helps although Python runs one at a time: TensorFlow decodes files without holding the
  # interpreter's lock.
  if len(body) < _LARGE and b"b64" not in body:
    return function(*arguments)
  return await asyncio.to_thread(function, *arguments)


def make_app(service: Service) -> Any:
  """Returns the FastAPI application of a service."""
  import fastapi

  app = fastapi.FastAPI(
    title="Octet", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan(service)
  )

  # FastAPI reads from these annotations what a path gives.
  async def post(request: fastapi.Request, name: str, verb: str, version: str | None = None):
    return await _answer_post(service, request, name, verb, version)

  def add(path, function, method="GET"):
    app.add_api_route(path, function, methods=[method])

  add("/v1/models/{name}/versions/{version}:{verb}", post, "POST")
  add("/v1/models/{name}:{verb}", post, "POST")
  add("/v1/models/{name}", _for_model(service, service.status))
  add("/v1/models/{name}/metadata", _for_model(service, service.metadata))
  add("/v1/models/{name}/about", _for_model(service, service.about))
  add("/metrics", lambda: _measured(service))
  add("/monitoring/prometheus/metrics", lambda: _measured(service))
  add("/healthz", lambda: {"status": "ok"})
  add("/readyz", lambda: {"status": "ok"})
  add("/", lambda: fastapi.responses.HTMLResponse(page.html(service.name)))
  return app


def _lifespan(service):
  """Returns the context in which FastAPI runs an application: the service's threads run there."""

  @contextlib.asynccontextmanager
  async def lifespan(app):
    del app
    service.start()
    yield
    await asyncio.to_thread(service.close)

  return lifespan


async def _answer_post(service, request, name, verb, version):
  """Answers a request to predict or to classify."""
  from fastapi import responses

  calls = {"predict": service.predict, "classify": service.classify}
  if verb not in calls:
    return _refusal(NotFoundError(f"There is no :{verb[:50]}: expected :predict or :classify."))
  start = time.perf_counter()
  try:
    _check_name(name, service)
    content = await calls[verb](await _body(request, service.max_body), version)
    response = responses.Response(content, media_type="application/json")
  except Exception as error:  # each has an answer
    response = _refusal(error)
  seconds = time.perf_counter() - start
  service.measurements.add_request(verb, response.status_code, seconds)
  return response


def _for_model(service, function):
  """Returns the handler of a GET request, which answers with what a function returns."""

  def handle(name: str):
    from fastapi import responses

    try:
      _check_name(name, service)
    except NotFoundError as error:
      return _refusal(error)
    return responses.JSONResponse(function())

  return handle


def _measured(service):
  from fastapi import responses

  text = service.measurements.text(service.predictor.loaded.version)
  return responses.PlainTextResponse(text, media_type=measurements.CONTENT_TYPE)


def _refusal(error):
  """Returns the answer to a request that raised an error."""
  from fastapi import responses

  code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), 500)
  text = str(error)
  if code == 500:
    logging.error("A request failed.", exc_info=error)
    text = "The model failed; the server's log says why."
  return responses.JSONResponse({"error": text}, code)


class _TooLarge(Exception):
  """A body has too many bytes."""


async def _body(request, most):
  """Reads the body of a request, but no more bytes than allowed."""
  text = f"The body is larger than {most / 2**20:.3g} MiB (--max_body_mb)."
  # The header may be missing or wrong, so the bytes are counted too.
  announced = request.headers.get("content-length", "")
  if announced.isdigit() and int(announced) > most:
    raise _TooLarge(text)
  parts, size = [], 0
  async for part in request.stream():
    parts.append(part)
    size += len(part)
    if size > most:
      raise _TooLarge(text)
  return b"".join(parts)


# What a request raises → the HTTP status of the answer.
_CODES = {_TooLarge: 413, NotFoundError: 404, errors.OctetError: 400, batching.BusyError: 503}


def _check_name(name, service):
  if name != service.name:
    raise NotFoundError(f"There is no model {name[:50]!r} here; there is {service.name!r}.")
