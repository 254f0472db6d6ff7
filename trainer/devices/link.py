"""Open connections between the chief and the other workers, which report lost workers at once.

A process closes its connections when it ends for any reason. TensorFlow notices this when it next
needs the process, which may be never while workers connect to each other. The chief tells the
others whom it has lost. After a loss of power nothing closes a connection: the kernel asks after 3
seconds of silence, and gives up 3 seconds later.

A worker that has lost another one raises WorkerLostError as soon as TensorFlow or jax returns. If
they do not return, the process ends after GRACE_SECONDS. In both cases the exit code is
errors.TRY_AGAIN, and the program that started the workers starts them again.

The workers also exchange small values, such as the length of the next loop: each sends one to the
chief, and receives all.

The connections carry lines of JSON, see `trainer.devices.rendezvous`; then:

| from   | line                                                              |
|--------|-------------------------------------------------------------------|
| anyone | {"left": ""}, {"left": "why"}: orderly, or after an error          |
| chief  | {"lost": 2, "why": "..."}                                          |
| worker | {"give": value}                                                   |
| chief  | {"all": [value, ...]}, by worker                                   |
"""

import atexit
import collections
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainer import errors
from trainer.cli import json_lines

if TYPE_CHECKING:
  from trainer.devices import cluster as cluster_lib

# How long a worker may take to end by itself after a loss: TensorFlow returns within 10 seconds,
# and a checkpoint may be half written. With the time until the kernel gives a connection up, all
# workers end within 15 seconds of a loss.
GRACE_SECONDS = 7.0

_KEEPALIVE = (
  ("TCP_KEEPIDLE", 3),
  ("TCP_KEEPINTVL", 1),
  ("TCP_KEEPCNT", 3),
  # In milliseconds. While the other side has not acknowledged a sent message, the kernel does not
  # ask: by default it repeats the message for a quarter of an hour.
  ("TCP_USER_TIMEOUT", 6000),
)
_LONGEST_LINE = 1 << 24  # gin files, at the most


def open_to(connected: socket.socket) -> json_lines.Connection:
  """Returns the connection over a socket; the kernel checks that it is alive."""
  connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  for name, value in _KEEPALIVE:
    if hasattr(socket, name):  # not on macOS
      connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
  return json_lines.Connection(connected, _LONGEST_LINE)


class LostError(errors.WorkerLostError):
  """Another worker does not answer any more. `trainer.devices.workers` adds the remedy."""


class Link:
  """The connections of one worker: from the chief to all others, or from a worker to the chief.

  Args:
    cluster: the cluster.
    others: worker → connection, which this object closes.
    token: see below.

  Attributes:
    token: a name that these workers share, and no earlier or later ones.
  """

  def __init__(
    self, cluster: "cluster_lib.Cluster", others: Mapping[int, json_lines.Connection], token: str
  ) -> None:
    self.token = token
    self._cluster = cluster
    self._others = dict(others)
    self._lost: str | None = None
    self._is_lost = threading.Event()
    self._has_left = False
    self._heard = threading.Condition()  # something of the following, or a loss
    self._given: dict[int, collections.deque] = {number: collections.deque() for number in others}
    self._gone: set[int] = set()  # those that have left in good order
    for other in self._others.values():
      other.socket.settimeout(None)
    threading.Thread(target=self._watch, name="link to the other workers", daemon=True).start()
    atexit.register(self.leave)

  def lost(self, within: float = 0.0) -> str | None:
    """Returns the lost worker, as "worker 2 (c:2222) has ended"; None if no worker is lost.

    Args:
      within: seconds to wait for a loss.
    """
    self._is_lost.wait(within)
    return self._lost

  def exchange(self, value: Any) -> list[Any]:
    """Exchanges a value: returns the values of all workers, in order. All workers must call it.

    Args:
      value: a value that JSON can represent.

    Raises:
      LostError: another worker does not answer any more.
    """
    number = self._cluster.number
    if number:
      self._others[0].send({"give": value})
      return self._next(0)
    given = [value, *(self._next(other) for other in sorted(self._others))]
    for connection in self._others.values():
      connection.send({"all": given})
    return given

  def _next(self, number):
    """Returns the next value of another worker."""
    given = self._given[number]
    with self._heard:
      self._heard.wait_for(lambda: given or self._is_lost.is_set() or number in self._gone)
      if given:
        return given.popleft()
    raise LostError(self._lost or f"{self._cluster.describe(number)} has ended its work")

  def leave(self, why: str = "") -> None:
    """Tells the others that this process leaves.

    Args:
      why: the error that ends it, in one line; "" at the end of its work.
    """
    if not self._has_left:
      self._has_left = True
      for other in self._others.values():
        other.send({"left": why})

  def _watch(self):
    """Reads from the other workers until all have left, or one is lost."""
    with selectors.DefaultSelector() as selector:
      for number, other in self._others.items():
        selector.register(other, selectors.EVENT_READ, number)
      for number, other in self._others.items():
        if not self._goes_on(number, other.unread, selector):
          return
      while selector.get_map():
        for key, _ in selector.select():
          number = key.data
          try:
            said = self._others[number].receive()
          except (OSError, ValueError) as error:
            self._lose(
              number, f"does not answer any more ({getattr(error, 'strerror', None) or error})"
            )
            return
          if not self._goes_on(number, said, selector):
            return

  def _goes_on(self, number, said, selector):
    """Handles a line from another worker, None at its end; returns False if the worker is lost."""
    for message in said or ():
      if "lost" in message:
        self._lose(message["lost"], message["why"])
        return False
      if message.get("left"):
        self._lose(number, f"has failed: {message['left']}")
        return False
      if "left" in message:
        selector.unregister(self._others[number])
        with self._heard:
          self._gone.add(number)
          self._heard.notify_all()
        return True
      if "give" in message or "all" in message:
        with self._heard:
          self._given[number].append(message.get("all", message.get("give")))
          self._heard.notify_all()
    if said is None:
      self._lose(number, "has ended")
      return False
    return True

  def _lose(self, number, why):
    for other, connection in self._others.items():
      if other != number:
        connection.send({"lost": number, "why": why})
    self._lost = f"{self._cluster.describe(number)} {why}"
    with self._heard:
      self._is_lost.set()
      self._heard.notify_all()
    time.sleep(GRACE_SECONDS)
    _end(f"{self._lost[0].upper()}{self._lost[1:]}.")


def _end(sentence):
  print(f"error: {sentence} Start all workers again.", file=sys.stderr, flush=True)
  # The main thread is inside TensorFlow or jax, which wait for the lost worker.
  os._exit(errors.TRY_AGAIN)
