"""The outermost layer of the server: the limit of connections, and an answer to every failure.

Each request passes through this layer, also the framework's own. So each uncaught exception becomes
an answer in the one shape of errors.
"""

from collections.abc import Callable
from typing import Any

from trainer.serving import refusals


class Access:
  """An ASGI application around another one.

  Args:
    app: answers the requests.
    is_full: returns whether more connections are open than allowed.
  """

  def __init__(self, app: Any, is_full: Callable[[], bool] = lambda: False) -> None:
    self._app, self._is_full = app, is_full

  async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
    """Answers a request."""
    if scope["type"] != "http":  # Such as "lifespan": the start and the end of the server.
      await self._app(scope, receive, send)
      return
    has_begun = False

    async def note_and_send(message):
      nonlocal has_begun
      has_begun = True
      await send(message)

    try:
      if self._is_full():
        raise refusals.FullError("The server has too many connections. Try again later.")
      await self._app(scope, receive, note_and_send)
    # A handler may raise anything. The client gets JSON as with every error, the log the reason.
    except Exception as error:
      if has_begun:  # The server closes the connection, and that tells the client.
        raise
      await refusals.response(error)(scope, receive, send)
