"""The outermost layer of the server: request ids, the limit of connections, the access log.

Every answer passes through this layer, also the framework's own. So each answer has an id, and each
uncaught exception becomes an answer in the one shape of errors.

    12:00:03 POST /v1/models/digits:predict 200 1.9 ms 213 bytes 4f0c2a91b7de
"""

import time
from collections.abc import Callable
from typing import Any

from absl import logging

from trainer.serving import refusals, request_ids


class Access:
  """An ASGI application around another one.

  Args:
    app: answers the requests.
    log: whether to log a line for each request.
    is_full: returns whether more connections are open than allowed.
    clock: seconds, for the access log.
  """

  def __init__(
    self,
    app: Any,
    log: bool = False,
    is_full: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.perf_counter,
  ) -> None:
    self._app, self._log, self._is_full, self._clock = app, log, is_full, clock

  async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
    """Answers a request."""
    if scope["type"] != "http":  # Such as "lifespan": the start and the end of the server.
      await self._app(scope, receive, send)
      return
    start = self._clock()
    given = dict(scope["headers"]).get(request_ids.HEADER.lower().encode())
    identity = request_ids.begin(given and given.decode("latin-1"))
    answered, size = 0, 0

    async def count_and_send(message):
      nonlocal answered, size
      if message["type"] == "http.response.start":
        answered = message["status"]
        header = (request_ids.HEADER.lower().encode(), identity.encode())
        message = {**message, "headers": [*message.get("headers", ()), header]}
      else:
        size += len(message.get("body", b""))
      await send(message)

    try:
      await self._answer(scope, receive, count_and_send)
    # A handler may raise anything. The client gets JSON as with every error, the log the reason.
    except Exception as error:
      if answered:  # The server closes the connection, and that tells the client.
        raise
      await refusals.response(error)(scope, receive, count_and_send)
    finally:
      if self._log:
        # The path stays percent-encoded: a line break in it would forge a line of the log.
        path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
        milliseconds = 1000 * (self._clock() - start)
        logging.info(
          "%s %s %d %.1f ms %d bytes %s",
          *(scope["method"], path, answered, milliseconds, size, identity),
        )

  async def _answer(self, scope, receive, send):
    if self._is_full():
      raise refusals.FullError("The server has too many connections. Try again later.")
    await self._app(scope, receive, send)
