"""Micro-batching: one call of the model answers all requests that wait at the same time.

    batcher = Batcher(max_rows=64)
    outputs = await batcher.run(engine, features)       # any number of coroutines at once
    batcher.close()

One thread calls the model. While the model is busy, requests wait in a queue. When it is free, the
thread takes as many requests as fit into a batch. A request does not wait for others while the
model is idle.
"""

import asyncio
import collections
import concurrent.futures
import dataclasses
import threading
from collections.abc import Callable, Mapping

import numpy as np

from trainer.outputs import engines


class BusyError(Exception):
  """The queue is full."""


@dataclasses.dataclass
class _Request:
  engine: engines.Engine
  features: Mapping[str, np.ndarray]
  rows: int
  future: concurrent.futures.Future = dataclasses.field(default_factory=concurrent.futures.Future)


class Batcher:
  """Puts requests into batches.

  Args:
    max_rows: the most examples in a call of the model. A larger request is a call of its own.
    max_waiting_rows: the most examples in the queue; the server refuses further requests.
    observe: called with the number of examples of each call of the model.
  """

  def __init__(
    self,
    max_rows: int = 64,
    max_waiting_rows: int = 4096,
    observe: Callable[[int], None] = lambda rows: None,
  ) -> None:
    self._max_rows, self._max_waiting_rows, self._observe = max_rows, max_waiting_rows, observe
    self._waiting: collections.deque[_Request] = collections.deque()
    self._rows = 0  # examples of the requests in the queue
    self._changed = threading.Condition()
    self._closed = False
    self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
    self._thread.start()

  async def run(
    self, engine: engines.Engine, features: Mapping[str, np.ndarray]
  ) -> dict[str, np.ndarray]:
    """Runs an engine on features, in a batch with other requests.

    Args:
      engine: runs the model. Requests for different engines never share a batch.
      features: name → array of shape [n, ...].

    Returns:
      Output name → array of shape [n, ...].

    Raises:
      BusyError: too many examples are in the queue.
    """
    rows = len(next(iter(features.values())))
    request = _Request(engine, features, rows)
    with self._changed:
      # An empty queue takes a request of any size: otherwise the server would always refuse it.
      if self._rows and self._rows + rows > self._max_waiting_rows:
        raise BusyError(f"The server is busy: {self._rows} examples are waiting. Try again later.")
      self._waiting.append(request)
      self._rows += rows
      self._changed.notify()
    return await asyncio.wrap_future(request.future)

  def close(self) -> None:
    """Ends the thread after it has answered all waiting requests."""
    with self._changed:
      self._closed = True
      self._changed.notify()
    self._thread.join()

  def _work(self):
    while taken := self._take():
      # A client that has gone has cancelled its request.
      requests = [one for one in taken if one.future.set_running_or_notify_cancel()]
      if not requests:
        continue
      self._observe(sum(request.rows for request in requests))
      try:
        _answer(requests)
      # Engines raise errors of many kinds. The thread must survive every error.
      except Exception as error:
        if len(requests) == 1:
          requests[0].future.set_exception(error)
          continue
        # One bad request must not fail the other requests of its batch, so try each alone.
        for request in requests:
          try:
            _answer([request])
          except Exception as error_of_one:
            request.future.set_exception(error_of_one)

  def _take(self):
    """Waits for requests, and takes the next call's, the oldest first; [] at the end.

    The requests of a call have one engine. After a load of a newer export, the queue may still have
    requests for the former one.
    """
    with self._changed:
      self._changed.wait_for(lambda: self._waiting or self._closed)
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
  columns = [request.features for request in requests]
  features = columns[0]
  if len(columns) > 1:
    features = {name: np.concatenate([each[name] for each in columns]) for name in features}
  outputs = requests[0].engine.predict_batch(features)
  # Cut all parts before the first answer: after a failure `_work` answers each request again, and
  # a future takes only one result.
  ends = np.cumsum([request.rows for request in requests])
  parts = [
    {name: array[end - request.rows : end] for name, array in outputs.items()}
    for request, end in zip(requests, ends, strict=True)
  ]
  for request, part in zip(requests, parts, strict=True):
    request.future.set_result(part)
