"""Several processes that drive XLA devices together, one per host, as in JAX.

    hosts = Hosts("a:8470", count=4, number=1, timeout=600, exchange=link.exchange)
    connected = devices.connect("cpu", 2, hosts)  # 8 devices, of which 2 are of this process

jax's coordinator runs in the first process. From the coordinator the other processes learn the
devices, and how the CPUs reach each other (Gloo). The coordinator would also end all processes by
SIGABRT once one is gone, and delay processes that end. Here the caller detects lost processes, so
jax must not: it reaches the coordinator through a relay in its own process, which stays connected.
"""

import atexit
import dataclasses
import socket
import threading
from collections.abc import Callable
from typing import Any

from trainer import errors

_ANSWER_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Hosts:
  """The processes, and the number of this process.

  Attributes:
    coordinator: "host:port" of the first process, where jax's coordinator listens.
    count: the number of processes.
    number: the number of this process.
    timeout: seconds to wait for the others.
    exchange: function of a small JSON value that returns the values of all processes, in order.
      All processes call it.
  """

  coordinator: str
  count: int
  number: int
  timeout: float
  exchange: Callable[[Any], list[Any]]


def join(hosts: Hosts) -> None:
  """Joins the others; jax then finds the devices of all. Call it before jax starts.

  Raises:
    SettingError: jax has started already.
    WorkerLostError: others were missing after the timeout.
  """
  from trainer.pjrt import jaxlib_internals  # This imports jax.

  if jaxlib_internals.has_started():
    raise errors.SettingError(
      "jax started in this process before it joined the other hosts: connect before the first use "
      "of jax, or in a new process."
    )
  import jax

  jax.config.update("jax_cpu_collectives_implementation", "gloo")
  host, _, port = hosts.coordinator.rpartition(":")
  if not hosts.number:
    # The address of all interfaces, as the rendezvous listened at before.
    everywhere = "[::]" if socket.has_dualstack_ipv6() else "0.0.0.0"
    jaxlib_internals.serve_coordinator(f"{everywhere}:{port}", hosts.count)
    address = f"localhost:{port}"
  else:
    address = f"127.0.0.1:{_relay(host.strip('[]'), int(port))}"
  try:
    jaxlib_internals.join_coordinator(address, hosts.count, hosts.number, int(hosts.timeout) or 1)
  except (jax.errors.JaxRuntimeError, RuntimeError) as error:
    raise errors.WorkerLostError(
      f"The hosts did not come together at {hosts.coordinator}: {errors.first_line(error)}. Start "
      "all hosts again."
    ) from error
  # Importing jax registers its own function; this one, registered later, runs before it.
  atexit.register(jaxlib_internals.forget_coordinator)


def _relay(host, port):
  """Starts a relay to an address; returns the port at which it listens on this machine.

  If the other side of a connection goes away, this side stays open. jax's client then neither fails
  nor aborts the process; it waits.
  """
  listener = socket.create_server(("127.0.0.1", 0))
  _start(_accept, listener, host, port)
  return listener.getsockname()[1]


def _accept(listener, host, port):
  while True:
    own, _ = listener.accept()
    try:
      other = socket.create_connection((host, port), _ANSWER_SECONDS)
    except OSError:
      own.close()  # The coordinator is not there yet: jax tries again.
      continue
    other.settimeout(None)
    _start(_copy, own, other)
    _start(_copy, other, own)


def _copy(source, target):
  try:
    while data := source.recv(1 << 16):
      target.sendall(data)
  except OSError:
    return


def _start(function, *arguments):
  threading.Thread(target=function, args=arguments, name="relay", daemon=True).start()
