"""Several processes that drive XLA devices together, one a host, as JAX has it.

    hosts = Hosts("a:8470", count=4, number=1, timeout=600, exchange=link.exchange)
    connected = devices.connect("cpu", 2, hosts)  # 8 devices, of which 2 are of this process

jax's coordinator runs in the first process. The others find by it which devices there are, and how
the CPUs reach each other (Gloo). It also ends all processes by SIGABRT once one is gone, and holds
those up that end. Here the caller finds out who is gone, so jax hears nothing of it: it reaches the
coordinator by a relay in its own process, which stays connected.
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
  """The processes, and which one this is.

  Attributes:
    coordinator: "host:port" of the first process, where jax's coordinator listens.
    count: the number of processes.
    number: of this one.
    timeout: how many seconds to wait for the others.
    exchange: function of a small value, as JSON has them, that returns what all processes give, in
      their order. All of them call it.
  """

  coordinator: str
  count: int
  number: int
  timeout: float
  exchange: Callable[[Any], list[Any]]


def join(hosts: Hosts) -> None:
  """Joins the others; jax finds the devices of all of them afterwards. Call it before jax starts.

  Raises:
    SettingError: jax was started before.
    WorkerLostError: the others did not come in time.
  """
  from trainer.pjrt import jaxlib_internals  # which imports jax

  if jaxlib_internals.has_started():
    raise errors.SettingError(
      "jax was started in this process before it joined the other hosts: connect before the first "
      "use of jax, or in a new process."
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
      "all of them again."
    ) from error
  # After jax's own function, which is registered when jax is imported, and so called before it.
  atexit.register(jaxlib_internals.forget_coordinator)


def _relay(host, port):
  """Starts a relay to an address; returns the port at which it listens on this machine.

  When the other side of a connection is gone, this side stays open. So jax's client neither fails
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
