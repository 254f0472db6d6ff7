"""Connections between workers: values are exchanged, and a lost worker is named."""

import socket
import threading
import types

import pytest

from trainer.devices import link


@pytest.fixture
def pair(monkeypatch):
  """The links of a chief and a worker. A loss ends no process."""
  threads = set(threading.enumerate())
  monkeypatch.setattr(link, "GRACE_SECONDS", 0.0)
  ended = []
  monkeypatch.setattr(link, "_end", ended.append)
  links = []
  with socket.create_server(("127.0.0.1", 0)) as server:
    theirs = socket.create_connection(server.getsockname())
    ours = server.accept()[0]
  for number, connected in ((0, ours), (1, theirs)):
    cluster = types.SimpleNamespace(number=number, describe="worker {}".format)
    links.append(link.Link(cluster, {1 - number: link.open_to(connected)}, "token"))
  threads = set(threading.enumerate()) - threads
  yield types.SimpleNamespace(chief=links[0], worker=links[1], ended=ended, socket=theirs)
  for each in links:
    each.leave()
  # A thread that saw a loss after this test would call the real `_end`, which ends pytest.
  for thread in threads:
    thread.join(10.0)
    assert not thread.is_alive()


def exchange(pair, of_chief, of_worker):
  found = {}
  thread = threading.Thread(target=lambda: found.update(worker=pair.worker.exchange(of_worker)))
  thread.start()
  found["chief"] = pair.chief.exchange(of_chief)
  thread.join(10.0)
  return found


def test_all_workers_get_all_values_in_order(pair):
  for number in range(2):
    values = [number, {"b": number}]
    assert exchange(pair, *values) == {"chief": values, "worker": values}


def test_a_worker_that_fails_is_named_with_its_error(pair):
  pair.worker.leave("no memory")
  assert pair.chief.lost(within=10.0) == "worker 1 has failed: no memory"
  with pytest.raises(link.LostError, match="worker 1 has failed: no memory"):
    pair.chief.exchange(1)


def test_a_worker_that_leaves_in_order_is_not_lost(pair):
  pair.worker.leave()
  with pytest.raises(link.LostError, match="worker 1 has ended its work"):
    pair.chief.exchange(1)
  assert pair.chief.lost() is None


def test_a_closed_connection_is_a_loss(pair):
  pair.socket.shutdown(socket.SHUT_RDWR)
  assert pair.chief.lost(within=10.0) == "worker 1 has ended"
