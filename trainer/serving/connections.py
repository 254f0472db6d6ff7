"""Connections of clients: how many are open, and how long a request may take to arrive.

    connections = Connections(most=4096, read_secs=30)
    uvicorn.Config(app, http=connections.protocol())

uvicorn has no time limit for the first line and the headers of a request
(https://github.com/Kludex/uvicorn/issues/157), and calls an application only after them. So a
subclass of uvicorn's protocol sets the limit here. `bodies` limits the rest of the request.
"""

import asyncio
import resource
from typing import Any

from absl import logging

_OTHER_FILES = 256  # The log, the listening sockets, the files of loaded exports.


class Connections:
  """Counts the open connections.

  Args:
    most: the most open connections; the server refuses requests on further ones.
    read_secs: the most seconds for the arrival of a request's headers; 0 for no limit.
  """

  def __init__(self, most: int, read_secs: float) -> None:
    self.most, self.read_secs = most, read_secs
    self.count = 0

  def is_full(self) -> bool:
    """Returns whether more connections are open than allowed."""
    return self.count > self.most

  def allow_files(self) -> None:
    """Raises this process's limit of open files: each connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A refused client needs a connection too, to receive its 503.
    wanted = 2 * self.most + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
      return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < self.most + _OTHER_FILES:
      logging.warning(
        "This system allows %d open files, fewer than --max_connections=%d needs: raise the limit "
        "(ulimit -n), or lower the flag.",
        *(allowed, self.most),
      )

  def protocol(self) -> type[asyncio.Protocol]:
    """Returns uvicorn's protocol of HTTP, with these limits."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    return _limited(AutoHTTPProtocol, self)


def _limited(base: Any, connections: Connections) -> type[asyncio.Protocol]:
  class LimitedProtocol(base):
    """Closes a connection if its next headers have begun and do not end in time."""

    _headers_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport):
      connections.count += 1
      super().connection_made(transport)
      self._expect_headers()

    def data_received(self, data):
      super().data_received(data)
      # `cycle` is the newest request with complete headers.
      if self.cycle is None or self.cycle.response_complete:
        self._expect_headers()
      else:
        self._forget_headers()

    def connection_lost(self, exc):
      connections.count -= 1
      self._forget_headers()
      super().connection_lost(exc)

    def _expect_headers(self):
      # Later bytes do not start the timer anew: a client that sends a byte now and then is slow.
      if connections.read_secs and self._headers_due is None:
        self._headers_due = self.loop.call_later(connections.read_secs, self.transport.close)

    def _forget_headers(self):
      if self._headers_due is not None:
        self._headers_due.cancel()
        self._headers_due = None

  return LimitedProtocol
