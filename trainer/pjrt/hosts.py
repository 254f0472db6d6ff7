"""Several processes that drive XLA devices together, one per host, as in JAX.

    hosts = Hosts(("a:8470", "b:8470"), 1, {"seed": "3"}, timeout=600)
    connected = devices.connect("cpu", 2, hosts)  # 4 devices, of which 2 are of this process
    hosts.exchange(3)  # [5, 3]: the values of both

jax's coordinator in the first process gathers the processes, tells each the devices of all, and
keeps a store of keys and values. It would also end all processes by SIGABRT when one is gone, and
its client cannot call a Python function instead (std::bad_cast in jaxlib 0.8.1 to 0.11.2). So the
clients reach the coordinator through relays, which jax never sees end:

    client - relay of its process - network - relay of the first process - coordinator

A process closes its connection when it ends for any reason, and the relay at the other end notices
at once. After a loss of power nothing closes a connection: the kernel asks after 3 seconds of
silence, and gives up 3 seconds later. A process that has lost another one raises LostError as soon
as jax returns. If jax does not return, the process ends after GRACE_SECONDS. In both cases the exit
code is errors.TRY_AGAIN, and the program that started the processes starts them again.

| key               | value                                                                     |
|-------------------|---------------------------------------------------------------------------|
| octet/end/2       | how process 2 has ended: "" in good order, or "has failed: an error"       |
| octet/7/2         | the value of process 2 in exchange 7                                       |
| octet/7/all       | the values of all processes in exchange 7                                  |

Every program that reaches the port can join: close the network of the hosts to others.
"""

import atexit
import contextlib
import dataclasses
import difflib
import itertools
import json
import os
import platform
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from trainer import errors

# How long a process may take to end by itself after a loss: jax returns within seconds, and a
# checkpoint may be half written.
GRACE_SECONDS = 7.0

_KEEPALIVE = (
  ("TCP_KEEPIDLE", 3),
  ("TCP_KEEPINTVL", 1),
  ("TCP_KEEPCNT", 3),
  # In milliseconds. While the other side has not acknowledged a sent message, the kernel does not
  # ask: by default it repeats the message for a quarter of an hour.
  ("TCP_USER_TIMEOUT", 6000),
)

# A worker's call has its number; the answer, as long, shows that Octet listens there.
_CALL, _ANSWER = b"octet %05d", b"octet joins"

# Seconds: for an answer; between two tries; until the first message about missing processes, since
# most arrive sooner, and between two messages; between two looks at the ends of processes.
_ANSWER_SECONDS = 5.0
_AGAIN_SECONDS = 0.5
_PATIENCE_SECONDS = 3.0
_TELL_SECONDS = 15.0
_LOOK_SECONDS = 1.0


class LostError(errors.WorkerLostError):
  """Another process does not answer any more. `trainer.devices.workers` adds the remedy."""


@dataclasses.dataclass
class _Wait:
  """A wait for other processes, at most `timeout` seconds."""

  timeout: float
  start: float = dataclasses.field(default_factory=time.monotonic)
  told: float = _PATIENCE_SECONDS - _TELL_SECONDS  # seconds after the start

  def go_on(self, missing: str, reason: str = "") -> None:
    """Logs who is missing, now and then; WorkerLostError when the time is over."""
    passed = time.monotonic() - self.start
    if passed > self.timeout:
      raise errors.WorkerLostError(
        f"{missing} did not come within {self.timeout:g} s (RunConfig.cluster_timeout_secs)"
        f"{reason}. Start all workers again."
      )
    if passed - self.told > _TELL_SECONDS:
      self.told = passed
      logging.info("Waiting for %s%s.", missing, reason)


class Hosts:
  """The processes of a run. The constructor joins them: call it before jax starts.

  Args:
    addresses: of all processes, "host:port". The first one is the coordinator's; the others are
      for messages, and "" where they are unknown.
    number: the index of this process.
    facts: name → text, the values that all processes must share.
    timeout: seconds to wait for the others.

  Attributes:
    count: the number of processes.
    number: the index of this process.
    token: a text that these processes share, and no earlier or later ones.

  Raises:
    SettingError: jax has started already, or the facts differ.
    WorkerLostError: others were missing after the timeout.
  """

  def __init__(
    self, addresses: Sequence[str], number: int, facts: Mapping[str, str], timeout: float
  ) -> None:
    from trainer.pjrt import jaxlib_internals  # This imports jax.

    if jaxlib_internals.has_started():
      raise errors.SettingError(
        "jax started in this process before it joined the other hosts: connect before the first "
        "use of jax, or in a new process."
      )
    self.count = len(addresses)
    self.number = number
    self._addresses = list(addresses)
    self._client: Any = None
    self._turns = itertools.count()
    self._ends: dict[int, str] = {}  # process → how it has ended
    self._open = set(range(1, self.count)) if not number else {0}  # connections to processes
    self._are_closed = threading.Event()
    self._kept: list[socket.socket] = []  # jax must not see the end of a connection
    self._lost: str | None = None
    self._is_lost = threading.Event()
    self._has_left = threading.Event()
    self._join(jaxlib_internals, timeout)
    watcher = _start(self._watch)
    # Importing jax registers its own function; this one, registered later, runs before it.
    atexit.register(self._finish, watcher, jaxlib_internals.forget_coordinator)
    own = {"node": platform.node(), "facts": dict(facts), "token": uuid.uuid4().hex}
    everyone = self.exchange(own)
    self.token: str = everyone[0]["token"]
    self._addresses = [
      address or each["node"] for address, each in zip(addresses, everyone, strict=True)
    ]
    logging.info("Host %d of %d: %s.", number, self.count, self._name(number))
    if difference := _difference([each["facts"] for each in everyone]):
      raise errors.SettingError(f"The workers differ: {difference}")

  def lost(self, within: float = 0.0) -> str | None:
    """Returns the lost process, as "worker 2 (c:2222) has ended"; None if no process is lost.

    Args:
      within: seconds to wait for a loss.
    """
    self._is_lost.wait(within)
    return self._lost

  def exchange(self, value: Any) -> list[Any]:
    """Exchanges a value: returns the values of all processes, in order. All must call it.

    Args:
      value: a value that JSON can represent.

    Raises:
      LostError: another process does not answer any more.
    """
    turn = next(self._turns)
    if self.number:
      self._client.key_value_set(f"octet/{turn}/{self.number}", json.dumps(value))
      return json.loads(self._get(f"octet/{turn}/all", 0))
    given = [self._get(f"octet/{turn}/{each}", each) for each in range(1, self.count)]
    values = [value, *map(json.loads, given)]
    self._client.key_value_set(f"octet/{turn}/all", json.dumps(values))
    # Who has given a value in this turn has read the values of the turn before.
    self._client.key_value_delete(f"octet/{turn - 1}")
    return values

  def _get(self, key, number):
    """Returns the value of a key, which another process sets."""
    while True:
      try:
        return self._client.blocking_key_value_get(key, int(1000 * _LOOK_SECONDS))
      except RuntimeError as error:  # jax.errors.JaxRuntimeError
        has_waited = "DEADLINE_EXCEEDED" in str(error)
        lost = self.lost(0.0 if has_waited else GRACE_SECONDS)
        if not lost and number in self._ends:
          lost = f"{self._name(number)} {self._ends[number] or 'has ended its work'}"
        if lost or not has_waited:
          raise LostError(lost or errors.first_line(error)) from error

  def leave(self, why: str = "") -> None:
    """Tells the others that this process leaves.

    Args:
      why: the error that ends it, in one line; "" at the end of its work.
    """
    is_told = self._has_left.is_set() or self._lost
    self._has_left.set()
    # Without a connection, the first process has left before.
    if not is_told and (self._open or not self.number):
      self._client.key_value_set(f"octet/end/{self.number}", why and f"has failed: {why}")

  def _name(self, number):
    address = self._addresses[number]
    return f"worker {number} ({address})" if address else f"worker {number}"

  def _join(self, jaxlib_internals, timeout):
    """Connects the processes, and jax's clients with its coordinator."""
    wait = _Wait(timeout)
    with tempfile.TemporaryDirectory(prefix="octet-") as folder:
      path = os.path.join(folder, "jax")
      if self.number:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        connection = self._call(wait)
        _start(lambda: self._relay(0, connection, listener.accept()[0]))
      else:
        connections = self._gather(wait)
        jaxlib_internals.serve_coordinator(f"unix:{path}", self.count)
        for number, connection in connections.items():
          own = socket.socket(socket.AF_UNIX)
          own.connect(path)
          self._relay(number, connection, own)
      try:
        # The first process has its own timeout, and the others hear of its end.
        self._client = jaxlib_internals.join_coordinator(
          f"unix:{path}", self.count, self.number, int(timeout) + 60
        )
      except RuntimeError as error:
        raise errors.WorkerLostError(
          f"The hosts did not come together at {self._addresses[0]}: "
          f"{self.lost() or errors.first_line(error)}. Start all workers again."
        ) from error

  def _gather(self, wait):
    """Waits for the calls of the others to the first process; returns number → connection."""
    connections: dict[int, socket.socket] = {}
    listener, busy = None, ""
    while missing := sorted(self._open - connections.keys()):
      wait.go_on(", ".join(map(self._name, missing)), busy)
      try:
        listener = listener or _listen(int(self._addresses[0].rpartition(":")[2]))
        connection = _opened(listener.accept()[0])
      except TimeoutError:
        continue
      except OSError as error:
        busy = f": {self._name(0)} cannot use its port ({error.strerror or error})"
        time.sleep(_AGAIN_SECONDS)
        continue
      call = _receive(connection)
      # Anything else is a probe, or another program.
      number = next((each for each in self._open if call == _CALL % each), None)
      with contextlib.suppress(OSError):  # It has ended meanwhile.
        if number is not None:
          connection.sendall(_ANSWER)
          connection.settimeout(None)
          connections[number] = connection
      # A worker that has ended meanwhile comes again.
      connections = {number: each for number, each in connections.items() if not _has_ended(each)}
    listener.close()
    return connections

  def _call(self, wait):
    """Calls the first process until it answers; returns the connection."""
    host, _, port = self._addresses[0].rpartition(":")
    while True:
      reason = "it does not answer"
      try:
        address = host.strip("[]"), int(port)
        connection = _opened(socket.create_connection(address, _ANSWER_SECONDS))
        connection.sendall(_CALL % self.number)
        if _receive(connection) == _ANSWER:
          connection.settimeout(None)
          return connection
        connection.close()
      except OSError as error:
        reason = error.strerror or str(error)
      wait.go_on(self._name(0), f": {reason}")
      time.sleep(_AGAIN_SECONDS)

  def _relay(self, number, connection, own):
    """Copies between the connection to another process and the one to jax, which stays open."""
    self._kept += [own, connection]
    _start(lambda: _copy(own, connection))
    _start(lambda: self._hear(number, connection, own))

  def _hear(self, number, connection, own):
    why = _copy(connection, own)
    self._open.discard(number)
    if not self._open:
      self._are_closed.set()
    if self._has_left.is_set() or number in self._ends:
      return
    if self.number or self._client is None:
      self._lose(number, why)
    else:
      # An error: the process itself has told its end.
      with contextlib.suppress(RuntimeError):
        self._client.key_value_set(f"octet/end/{number}", why)

  def _watch(self):
    """Looks for processes that have ended."""
    while not self._has_left.wait(_LOOK_SECONDS) and not self._lost:
      # An error: the first process is gone, as its relay notices.
      with contextlib.suppress(RuntimeError):
        for key, why in self._client.key_value_dir_get("octet/end"):
          self._ends[int(key.rpartition("/")[2])] = why
      if failed := next((number for number, why in self._ends.items() if why), None):
        self._lose(failed, self._ends[failed])

  def _lose(self, number, why):
    if self._lost:  # The first process has lost another, and ends.
      return
    self._lost = f"{self._name(number)} {why}"
    self._is_lost.set()
    time.sleep(GRACE_SECONDS if self._client else 0.0)
    sentence = f"{self._lost[0].upper()}{self._lost[1:]}"
    print(f"error: {sentence}. Start all workers again.", file=sys.stderr, flush=True)
    # The main thread is inside jax, which waits for the lost process.
    os._exit(errors.TRY_AGAIN)

  def _finish(self, watcher, forget_coordinator):
    """Leaves at the end of the process. The first process ends last: it has the coordinator."""
    self.leave()
    watcher.join(GRACE_SECONDS)
    if not self.number:
      self._are_closed.wait(GRACE_SECONDS)
    if self._lost:  # jax would wait for the lost process.
      sys.stdout.flush()
      sys.stderr.flush()
      os._exit(errors.TRY_AGAIN)
    forget_coordinator()


def _difference(facts):
  """Returns the first difference between worker 0 and another in name → text, or None."""
  for name in sorted(set().union(*facts)):
    first, *others = [each.get(name, "none") for each in facts]
    for number, other in enumerate(others, 1):
      changes = difflib.unified_diff(first.splitlines(), other.splitlines(), n=0, lineterm="")
      lines = [
        f"    worker {0 if line[0] == '-' else number}: {line[1:]}"
        for line in list(changes)[2:]
        if line[0] in "+-"
      ]
      if lines:
        return (
          f"{name} differs between worker 0 and worker {number}, and all need the same:\n"
          + "\n".join(lines[:6])
        )
  return None


def _listen(port):
  both = socket.has_dualstack_ipv6()
  family = socket.AF_INET6 if both else socket.AF_INET
  listener = socket.create_server(("", port), family=family, dualstack_ipv6=both)
  listener.settimeout(_AGAIN_SECONDS)
  return listener


def _opened(connection):
  """Returns a connection whose kernel checks that the other side is alive."""
  connection.settimeout(_ANSWER_SECONDS)
  for name, value in (("TCP_NODELAY", 1), *_KEEPALIVE):
    if hasattr(socket, name):  # not all on macOS
      connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
  connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  return connection


def _receive(connection):
  """Returns a call or an answer; b"" if none comes."""
  try:
    return connection.recv(len(_ANSWER))
  except OSError:
    return b""


def _has_ended(connection):
  try:
    return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
  except BlockingIOError:
    return False
  except OSError:
    return True


def _copy(source, target):
  """Copies until the source ends; returns how it has ended."""
  try:
    while data := source.recv(1 << 16):
      target.sendall(data)
  except OSError as error:
    return f"does not answer any more ({error.strerror or error})"
  return "has ended"


def _start(function):
  thread = threading.Thread(target=function, name="hosts", daemon=True)
  thread.start()
  return thread
