"""Micro-batching: requests that wait at the same time are one call of the model.

    batcher = Batcher(max_rows=64)
    outputs = await batcher.run(engine, features)       # any number of coroutines at once
    batcher.close()

One thread calls the model. While it is busy, requests gather; when it is free it takes what is
there, up to so many rows. Nobody waits for company where the model is idle, unless a time is set
for that.
"""

import asyncio
import collections
import dataclasses
import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
from absl import logging

from trainer.outputs import engines


class Busy(Exception):
  """More is waiting than there is room for."""


@dataclasses.dataclass
class _Request:
  engine: engines.Engine
  features: Mapping[str, np.ndarray]
  rows: int
  loop: asyncio.AbstractEventLoop
  future: asyncio.Future


class Batcher:
  """Gathers requests.

  Args:
    max_rows: examples of a call, at most; a larger request is a call of its own.
    max_wait_secs: how long a request may wait for others while the model is idle.
    max_waiting_rows: examples that may wait; beyond that, requests are refused.
    observe: called with the number of examples of each call.
  """

  def __init__(
    self,
    max_rows: int = 64,
    max_wait_secs: float = 0.0,
    max_waiting_rows: int = 4096,
    observe: Callable[[int], None] = lambda rows: None,
  ):
    self._max_rows, self._max_wait_secs = max_rows, max_wait_secs
    self._max_waiting_rows, self._observe = max_waiting_rows, observe
    self._waiting = collections.deque()
    self._rows = 0
    self._changed = threading.Condition()
    self._closed = False
    self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
    self._thread.start()

  async def run(
    self, engine: engines.Engine, features: Mapping[str, np.ndarray]
  ) -> dict[str, np.ndarray]:
    """The outputs of an engine for features; Busy if too many examples wait."""
    loop = asyncio.get_running_loop()
    rows = len(next(iter(features.values())))
    request = _Request(engine, features, rows, loop, loop.create_future())
    with self._changed:
      if self._rows and self._rows + rows > self._max_waiting_rows:
        raise Busy(f"{self._rows} examples are waiting")
      self._waiting.append(request)
      self._rows += rows
      self._changed.notify()
    return await request.future

  def close(self) -> None:
    """Ends the thread, once what waits is done."""
    with self._changed:
      self._closed = True
      self._changed.notify()
    self._thread.join()

  def _work(self):
    while requests := self._take():
      self._observe(sum(request.rows for request in requests))
      try:
        _answer(requests)
      except Exception as error:  # of whatever kind the engine raises; the thread must live on
        if len(requests) > 1:  # whose fault it is, each by itself tells
          for request in requests:
            self._alone(request)
        else:
          _finish(requests[0], error=error)

  def _alone(self, request):
    try:
      _answer([request])
    except Exception as error:
      _finish(request, error=error)

  def _take(self):
    """Requests for one call: of the same engine, the oldest first. None at the end."""
    with self._changed:
      self._changed.wait_for(lambda: self._waiting or self._closed)
      if self._max_wait_secs and not self._closed:
        deadline = time.monotonic() + self._max_wait_secs
        self._changed.wait_for(
          lambda: self._rows >= self._max_rows or self._closed, deadline - time.monotonic()
        )
      taken, rows = [], 0
      while self._waiting:
        first = self._waiting[0]
        if taken and (first.engine is not taken[0].engine or rows + first.rows > self._max_rows):
          break
        taken.append(self._waiting.popleft())
        rows += first.rows
      self._rows -= rows
      return taken


def _answer(requests):
  features = (
    requests[0].features
    if len(requests) == 1
    else {
      name: np.concatenate([request.features[name] for request in requests])
      for name in requests[0].features
    }
  )
  outputs = requests[0].engine.predict_batch(features)
  first = 0
  for request in requests:
    part = {name: array[first : first + request.rows] for name, array in outputs.items()}
    first += request.rows
    _finish(request, outputs=part)


def _finish(request, outputs=None, error=None):
  def finish():
    if request.future.done():  # whoever asked has gone
      return
    if error is None:
      request.future.set_result(outputs)
    else:
      request.future.set_exception(error)

  try:
    request.loop.call_soon_threadsafe(finish)
  except RuntimeError:  # the loop is closed: the server has ended
    logging.warning("A prediction was ready after the server had ended.")
