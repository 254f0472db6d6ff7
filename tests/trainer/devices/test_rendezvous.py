"""Workers wait for each other before they connect, and hear at once who is lost."""

import concurrent.futures
import contextlib
import dataclasses
import queue
import socket

import pytest

from trainer import errors
from trainer.devices import cluster as cluster_lib
from trainer.devices import rendezvous

GRACE_SECONDS = rendezvous.link_lib.GRACE_SECONDS  # before the tests take it away


@pytest.fixture(autouse=True, scope="module")
def ended():
  """Gets the sentences of Links that would have ended this process."""
  sentences: queue.Queue = queue.Queue()
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(rendezvous.link_lib, "_end", sentences.put)
    patch.setattr(rendezvous.link_lib, "GRACE_SECONDS", 0.0)
    yield sentences


def addresses(count):
  sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
  ports = [each.getsockname()[1] for each in sockets]
  for each in sockets:
    each.close()
  return [f"localhost:{port}" for port in ports]


def clusters(count):
  """The Cluster of each worker."""
  where = tuple(addresses(count))
  return [
    cluster_lib.Cluster("TF_CONFIG", (("worker", where),), "worker", index)
    for index in range(count)
  ]


def gather_all(workers, facts=None, timeout=20.0):
  """What gather gives each worker: Links, or the error that it raised."""
  with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
    calls = [
      pool.submit(rendezvous.gather, each, (facts or {}).get(each.number, {}), timeout)
      for each in workers
    ]
  return [call.exception() or call.result() for call in calls]


@contextlib.contextmanager
def linked(count):
  """Links of workers that are all there."""
  links = gather_all(clusters(count))
  try:
    yield links
  finally:
    for each in links:
      each.leave()


def cut(link):
  """Ends a worker's connections as the end of its process does."""
  for connection in link._others.values():
    connection.send = lambda message: False  # a process that has ended tells nobody of what it sees
  for connection in link._others.values():
    connection.socket.shutdown(socket.SHUT_RDWR)


def test_all_hear_who_is_lost():
  with linked(3) as links:
    assert links[0].lost() is None
    cut(links[2])
    assert links[0].lost(5).startswith("worker 2 (localhost:")
    assert links[1].lost(5) == links[0].lost()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="options of Linux")
def test_after_a_loss_of_power_a_worker_ends_within_15_seconds():
  with linked(2) as links:
    for link in links:
      (connection,) = link._others.values()
      assert connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
      idle, interval, count, unacknowledged = (
        connection.socket.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"))
        for name in ("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT")
      )
      # Where nothing is on its way, and where something is, which the kernel sends again and again.
      assert idle + interval * count + GRACE_SECONDS <= 14
      assert 0 < unacknowledged / 1000 + GRACE_SECONDS <= 14


def test_a_lost_chief_is_heard_of(ended):
  with linked(3) as links:
    cut(links[0])
    for each in links[1:]:
      assert each.lost(5).startswith("worker 0 (localhost:")
    while not ended.get(timeout=5).startswith("Worker 0 (localhost:"):
      pass  # those of other tests


def test_who_leaves_in_order_is_not_lost_and_who_fails_says_why():
  with linked(3) as links:
    links[1].leave()
    cut(links[1])
    assert links[0].lost(0.3) is None
    links[2].leave("InputError: no such file")
    assert "has failed: InputError: no such file" in links[0].lost(5)


def of_all(links, value_of):
  """What each worker gets of an exchange of value_of(its number)."""
  with concurrent.futures.ThreadPoolExecutor(len(links)) as pool:
    calls = [pool.submit(link.exchange, value_of(number)) for number, link in enumerate(links)]
  return [call.exception() or call.result() for call in calls]


def test_workers_exchange_values_in_worker_order_repeatedly():
  with linked(3) as links:
    for scale in (1, 10, 0.1):
      assert (
        of_all(links, lambda number, scale=scale: number * scale) == [[0, scale, 2 * scale]] * 3
      )
    assert of_all(links, lambda number: None) == [[None] * 3] * 3


def test_an_exchange_with_who_is_lost_or_has_ended_is_an_error():
  with linked(3) as links:
    cut(links[2])
    for error in of_all(links[:2], lambda number: number):
      assert isinstance(error, errors.WorkerLostError)
      assert str(error).startswith("worker 2 (localhost:")
  with linked(2) as links:
    links[1].leave()
    with pytest.raises(errors.WorkerLostError, match="worker 1 .* has ended its work"):
      links[0].exchange(1)


def test_the_chief_says_for_whom_it_waits_and_not_for_ever(monkeypatch, caplog):
  for name in ("_PATIENCE_SECONDS", "_TELL_SECONDS"):
    monkeypatch.setattr(rendezvous, name, 0.1)
  workers = clusters(3)
  with caplog.at_level("INFO", logger="absl"):
    chief, first = gather_all(workers[:2], timeout=1.0)
  missing = workers[0].describe(2)
  for error in (chief, first):
    assert isinstance(error, errors.WorkerLostError)
    assert f"{missing} did not come within 1 s (RunConfig.cluster_timeout_secs)" in str(error)
    assert error.exit_code == 75
  assert f"Waiting for {missing}." in caplog.text


def test_a_worker_without_a_chief_does_not_wait_for_ever():
  workers = clusters(2)
  [error] = gather_all(workers[1:], timeout=0.1)
  assert isinstance(error, errors.WorkerLostError)
  assert f"{workers[0].describe(0)} did not come within 0.1 s" in str(error)


GIN = "run.train_steps = 5\nrun.train_batch_size = {}\n"


def test_differing_gin_files_are_refused_with_differing_line():
  facts = {number: {"gin": GIN.format(64 if number == 2 else 32)} for number in range(3)}
  for error in gather_all(clusters(3), facts):
    assert isinstance(error, errors.SettingError)
    assert "The workers of TF_CONFIG differ: gin differs between worker 0 and worker 2" in str(
      error
    )
    assert "worker 0: run.train_batch_size = 32\n" in str(error)
    assert "worker 2: run.train_batch_size = 64\n" in str(error)
    assert "train_steps" not in str(error)


def test_other_versions_are_refused():
  facts = {0: {"the version of TensorFlow": "2.21.0"}, 1: {"the version of TensorFlow": "2.20.0"}}
  for error in gather_all(clusters(2), facts):
    assert isinstance(error, errors.SettingError)
    assert "the version of TensorFlow is 2.21.0 on worker 0 and 2.20.0 on worker 1." in str(error)


@pytest.mark.parametrize(
  ("source", "expected"),
  [("TF_CONFIG", errors.SettingError), ("--cluster=kubernetes", errors.WorkerLostError)],
)
def test_differing_worker_lists_raise_the_error_of_their_source(source, expected):
  first, second = (dataclasses.replace(each, source=source) for each in clusters(2))
  jobs = (("worker", (first.addresses[0], "elsewhere:1")),)
  for error in gather_all([first, dataclasses.replace(second, jobs=jobs)]):
    assert type(error) is expected
    assert f"The workers of {source} differ: the list of workers is {first.addresses[0]}" in str(
      error
    )


def call(worker):
  """A connection to the chief of a worker that has called it."""
  host, port = worker.addresses[0].split(":")
  while True:
    with contextlib.suppress(ConnectionRefusedError):  # the chief does not listen yet
      connection = rendezvous.link_lib.open_to(socket.create_connection((host, int(port)), 5))
      connection.send({"octet": 1, "number": worker.number, "who": "before", "facts": {}})
      return connection


def test_strangers_and_returning_workers_do_not_disturb():
  """A probe that says nothing, another protocol; a worker that has ended, and comes again."""
  workers = clusters(3)
  with concurrent.futures.ThreadPoolExecutor(3) as pool:
    chief = pool.submit(rendezvous.gather, workers[0], {}, 30.0)
    call(workers[1]).close()
    host, port = workers[0].addresses[0].split(":")
    for said in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"[]\n", b"{}\n"):
      with socket.create_connection((host, int(port)), 5) as stranger:
        stranger.sendall(said)
    others = [pool.submit(rendezvous.gather, each, {}, 30.0) for each in workers[1:]]
    links = [each.result(30) for each in (chief, *others)]
  for each in links:
    each.leave()


def test_first_process_of_a_worker_counts_while_it_is_there():
  workers = clusters(3)
  with concurrent.futures.ThreadPoolExecutor(1) as pool:
    chief = pool.submit(rendezvous.gather, workers[0], {}, 3.0)
    first = call(workers[1])
    assert first.receive() == [{"octet": 1}]
    with pytest.raises(errors.WorkerLostError, match="does not answer"):
      rendezvous.gather(workers[1], {}, 0.1)
    with pytest.raises(errors.WorkerLostError, match="worker 2 .* did not come"):
      chief.result(20)
  first.close()
