"""The relay by which jax reaches its coordinator."""

import contextlib
import socket

from trainer.pjrt import hosts


def test_relay_copies_both_ways_and_outlives_the_other_side():
  with socket.create_server(("127.0.0.1", 0)) as server:
    relay = hosts._relay("127.0.0.1", server.getsockname()[1])
    with socket.create_connection(("127.0.0.1", relay), 10) as own:
      other, _ = server.accept()
      with other:
        own.sendall(b"heartbeat")
        assert other.recv(100) == b"heartbeat"
        other.sendall(b"fine")
        assert own.recv(100) == b"fine"
      own.settimeout(0.3)
      # jax would end the process by SIGABRT if it heard of an end.
      with contextlib.suppress(TimeoutError):
        raise AssertionError(f"the relay said {own.recv(100)!r}")


def test_a_relay_closes_a_connection_where_nobody_listens_yet():
  with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
  relay = hosts._relay("127.0.0.1", port)
  with socket.create_connection(("127.0.0.1", relay), 10) as own:
    assert own.recv(100) == b""  # jax tries again
