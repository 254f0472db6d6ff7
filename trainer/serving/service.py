"""A served model: it answers requests, and loads newer exports.

service = Service(predictor, "cifar10", measurements)
service.start()
answer = await service.run(tf_serving.read_predict, body, predictor.loaded)
service.close()
"""

import asyncio
import dataclasses
import functools
import threading

from absl import logging

from trainer.serving import batching, calls, predictor
from trainer.serving.loaded_model import LoadedModel
from trainer.serving.measurements import Measurements

_LARGE = 1 << 16  # Bytes; a thread parses larger bodies, so that other requests proceed.


@dataclasses.dataclass(eq=False)
class Service:
  """A served model.

  Attributes:
    predictor: has the loaded version.
    name: the model's name in the paths.
    measurements: of the server.
    max_batch: see max_rows of `batching.Batcher`.
    reload_secs: seconds between two checks for a newer export; 0 for no checks.
  """

  predictor: predictor.Predictor
  name: str
  measurements: Measurements
  _: dataclasses.KW_ONLY
  max_batch: int = 64
  reload_secs: float = 5.0

  def __post_init__(self) -> None:
    observe = functools.partial(self.measurements.add_batch, self.name)
    self._batcher = batching.Batcher(self.max_batch, observe=observe)
    self._closing = threading.Event()
    self._failed: str | None = None  # The last error of a reload, to log it once.
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
    """Loads a newer export if there is one. The service logs and counts a failure."""
    try:
      self.predictor.reload_if_newer()
      self._failed = None
    # An export may be broken in any way. The server keeps the former one.
    except Exception as error:
      if str(error) != self._failed:
        self._failed = str(error)
        self.measurements.add_reload_failure(self.name)
        logging.error("The server cannot use a newer export and keeps the former one. %s", error)

  async def run(self, read: calls.Read, body: bytes, loaded: LoadedModel) -> bytes:
    """Returns the body of the answer to a request.

    Args:
      read: reads the body.
      body: of the request.
      loaded: the version that answers. The version may be a former one: the request may have begun
        before a newer export took its place.

    Raises:
      InputError: the model cannot use the request.
      BusyError: too many examples are waiting.
    """
    call = await _aside(body, read, body, loaded)
    outputs = await self._batcher.run(loaded.engines[call.signature], call.features)
    return await _aside(body, call.write, outputs)

  def _reload_until_closed(self):
    while not self._closing.wait(self.reload_secs):
      self.reload()


async def _aside(body, function, *arguments):
  """Calls a function, in a thread if its body is large."""
  if len(body) < _LARGE:
    return function(*arguments)
  return await asyncio.to_thread(function, *arguments)
