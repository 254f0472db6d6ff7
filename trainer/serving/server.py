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
import threading
import time
from typing import Any

from absl import logging

from trainer import errors
from trainer.outputs import signatures
from trainer.serving import batching, measurements, page, predictor, rest

_ABOUT = ("model", "global_step", "exported", "class_names", "metrics", "decodes", "versions")
_LARGE = 1 << 16  # bytes; larger bodies are parsed in a thread, so that other requests go on


class Service:
  """A model that is served.

  Args:
    predictor_: predicts.
    name: the model's name in the URLs.
    max_batch: see max_rows of `batching.Batcher`.
    batch_wait_secs: see max_wait_secs of `batching.Batcher`.
    max_waiting: see max_waiting_rows of `batching.Batcher`.
    reload_secs: seconds between two checks for a newer export; 0 for none.
    max_body: the most bytes in the body of a request.
  """

  def __init__(
    self,
    predictor_: predictor.Predictor,
    name: str = "model",
    *,
    max_batch: int = 64,
    batch_wait_secs: float = 0.0,
    max_waiting: int = 4096,
    reload_secs: float = 5.0,
    max_body: int = 16 << 20,
  ) -> None:
    self.predictor, self.name, self.max_body = predictor_, name, max_body
    self.measurements = measurements.Measurements()
    self._batcher = batching.Batcher(
      max_batch, batch_wait_secs, max_waiting, self.measurements.add_batch
    )
    self._closing = threading.Event()
    self._reload_secs = reload_secs
    self._failed: str | None = None  # the last error of a reload, which is logged only once
    self._reloader: threading.Thread | None = None

  def start(self) -> None:
    """Starts the thread that looks for newer exports."""
    if self._reload_secs:
      self._reloader = threading.Thread(target=self._reload_in_turn, name="reloader", daemon=True)
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
    engine = loaded.engines[request.signature]
    outputs = await self._batcher.run(engine, request.features)
    return await _aside(body, rest.predict_answer, request, outputs)

  async def classify(self, body: bytes, version: str | None = None) -> bytes:
    """Answers a request to :classify; for Args, Returns and Raises see `predict`."""
    loaded = self._loaded(version)
    request = await _aside(body, rest.classify_request, body, loaded)
    outputs = await self._batcher.run(loaded.engines[request.signature], request.features)
    return rest.classify_answer(outputs, loaded.description["class_names"])

  def _loaded(self, version):
    loaded = self.predictor.loaded
    if version not in (None, loaded.version):
      raise NotFoundError(f"Version {version} is not loaded; {loaded.version} is.")
    return loaded

  def _reload_in_turn(self):
    while not self._closing.wait(self._reload_secs):
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
  from fastapi import responses

  @contextlib.asynccontextmanager
  async def lifespan(app):
    del app
    service.start()
    yield
    await asyncio.to_thread(service.close)

  app = fastapi.FastAPI(
    title="Octet", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
  )

  def refusal(code, text):
    return responses.JSONResponse({"error": text}, code)

  async def answer(verb, request, name, call):
    start = time.perf_counter()
    try:
      _check_name(name, service)
      response = responses.Response(
        await call(await _body(request, service.max_body)), media_type="application/json"
      )
    except _TooLarge as error:
      response = refusal(413, str(error))
    except NotFoundError as error:
      response = refusal(404, str(error))
    except errors.OctetError as error:
      response = refusal(400, str(error))
    except batching.BusyError as error:
      response = refusal(503, f"The server is busy: {error}. Try again later.")
    except Exception:
      logging.exception("A request failed.")
      response = refusal(500, "The model failed; the server's log says why.")
    service.measurements.add_request(verb, response.status_code, time.perf_counter() - start)
    return response

  async def post(request: fastapi.Request, name: str, verb: str, version: str | None = None):
    calls = {"predict": service.predict, "classify": service.classify}
    if verb not in calls:
      return refusal(404, f"There is no :{verb[:50]}: expected :predict or :classify.")
    return await answer(verb, request, name, lambda body: calls[verb](body, version))

  app.add_api_route("/v1/models/{name}/versions/{version}:{verb}", post, methods=["POST"])
  app.add_api_route("/v1/models/{name}:{verb}", post, methods=["POST"])

  def get(path, function):
    def answered(name: str):
      try:
        _check_name(name, service)
        return responses.JSONResponse(function())
      except NotFoundError as error:
        return refusal(404, str(error))

    app.add_api_route(path, answered, methods=["GET"])

  def status():
    return {
      "model_version_status": [
        {
          "version": service.predictor.loaded.version,
          "state": "AVAILABLE",
          "status": {"error_code": "OK", "error_message": ""},
        }
      ]
    }

  def about():
    loaded = service.predictor.loaded
    told = {key: loaded.description.get(key) for key in _ABOUT}
    # The page can send one image, so the model must take an image and nothing else.
    image = list(loaded.decoders) == list(loaded.inputs) and len(loaded.inputs) == 1
    return dict(
      told,
      engine=loaded.engine.name,
      version=loaded.version,
      image=next(iter(loaded.inputs))
      if image and signatures.FROM_BYTES in (loaded.description["signatures"])
      else None,
    )

  get("/v1/models/{name}", status)
  get("/v1/models/{name}/metadata", lambda: rest.metadata(service.name, service.predictor.loaded))
  get("/v1/models/{name}/about", about)

  def measured():
    text = service.measurements.text(service.predictor.loaded.version)
    return responses.PlainTextResponse(text, media_type=measurements.CONTENT_TYPE)

  app.add_api_route("/metrics", measured, methods=["GET"])
  app.add_api_route("/monitoring/prometheus/metrics", measured, methods=["GET"])
  app.add_api_route("/healthz", lambda: {"status": "ok"}, methods=["GET"])
  app.add_api_route("/readyz", lambda: {"status": "ok"}, methods=["GET"])
  app.add_api_route("/", lambda: responses.HTMLResponse(page.html(service.name)), methods=["GET"])
  return app


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


def _check_name(name, service):
  if name != service.name:
    raise NotFoundError(f"There is no model {name[:50]!r} here; there is {service.name!r}.")
