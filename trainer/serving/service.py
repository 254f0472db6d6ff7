"""A model that is served: it answers bodies of requests, and takes newer exports.

service = Service(predictor, "cifar10")
service.start()
answer = await service.predict(body)                # bytes
service.close()
"""

import asyncio
import dataclasses
import threading
from typing import Any

from absl import logging

from trainer.outputs.preprocessing import FROM_BYTES
from trainer.serving import batching, predictor, refusals, rest
from trainer.serving.measurements import Measurements

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
    measurements: of its requests. Versions of one model share them.
  """

  predictor: predictor.Predictor
  name: str = "model"
  _: dataclasses.KW_ONLY
  max_batch: int = 64
  batch_wait_secs: float = 0.0
  reload_secs: float = 5.0
  measurements: Measurements = dataclasses.field(default_factory=Measurements)

  def __post_init__(self) -> None:
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
    """Returns the state of the loaded version, as TensorFlow Serving tells it."""
    return {
      "version": self.predictor.loaded.version,
      "state": "AVAILABLE",
      "status": {"error_code": "OK", "error_message": ""},
    }

  def metadata(self) -> dict[str, Any]:
    """Returns the signatures, as TensorFlow Serving tells them."""
    return rest.metadata(self.name, self.predictor.loaded)

  def about(self) -> dict[str, Any]:
    """Returns what the page shows of the model."""
    loaded = self.predictor.loaded
    # The page can send one image, so the model must take an image and nothing else.
    takes_image = list(loaded.decoders) == list(loaded.inputs) and len(loaded.inputs) == 1
    has_bytes = FROM_BYTES in loaded.description["signatures"]
    return {
      **{key: loaded.description.get(key) for key in _ABOUT},
      "raw": loaded.raw,
      "engine": loaded.engine.name,
      "version": loaded.version,
      "image": next(iter(loaded.inputs)) if takes_image and has_bytes else None,
    }

  def _loaded(self, version):
    loaded = self.predictor.loaded
    if version not in (None, loaded.version):
      raise refusals.NotFoundError(f"Version {version} is not loaded; {loaded.version} is.")
    return loaded

  def _reload_until_closed(self):
    while not self._closing.wait(self.reload_secs):
      self.reload()


async def _aside(body, function, *arguments):
  """Calls a function, in a thread if its body is large or has files to decode."""
  # A thread helps although Python runs one at a time: TensorFlow decodes files without holding the
  # interpreter's lock.
  if len(body) < _LARGE and b"b64" not in body:
    return function(*arguments)
  return await asyncio.to_thread(function, *arguments)
