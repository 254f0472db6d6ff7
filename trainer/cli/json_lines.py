"""Messages between two processes: JSON objects over a socket, one a line."""

import json
import math
import socket
import threading
from collections.abc import Mapping
from typing import Any


class Connection:
  """Sends and receives JSON objects over a connected socket.

  Args:
    connected: the socket.
    longest: the most bytes of a line.

  Attributes:
    socket: the socket.
    unread: messages that arrived together with the last message of an earlier reader.
  """

  def __init__(self, connected: socket.socket, longest: float = math.inf) -> None:
    self.socket = connected
    self.unread: list[Any] = []
    self._longest = longest
    self._received = b""
    self._sending = threading.Lock()

  def fileno(self) -> int:
    """Returns the socket's file descriptor, so that a selector can wait for this object."""
    return self.socket.fileno()

  def send(self, message: Mapping[str, Any]) -> bool:
    """Sends a message; returns whether it could. A reader hears of a broken connection."""
    try:
      with self._sending:
        self.socket.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
      return False
    return True

  def receive(self) -> list[Any] | None:
    """Waits for something to come.

    Returns:
      The complete messages, maybe none; None if the other side has ended.

    Raises:
      OSError: the connection broke, or nothing came in time.
      ValueError: a line is no JSON object, or too long.
    """
    data = self.socket.recv(1 << 16)
    if not data:
      return None
    *complete, self._received = (self._received + data).split(b"\n")
    if len(self._received) > self._longest:
      raise ValueError("a line without an end")
    messages = [json.loads(line) for line in complete]
    if not all(isinstance(message, dict) for message in messages):
      raise ValueError("no JSON object")
    return messages

  def close(self) -> None:
    """Closes the socket."""
    self.socket.close()
