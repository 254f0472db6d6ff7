"""Processes meet, exchange values, and hear at once who is lost; a stand-in is jax's store."""

import concurrent.futures
import contextlib
import socket
import threading
import time

import pytest

from trainer import errors

pytest.importorskip("jax")

from trainer.pjrt import hosts, jaxlib_internals

GRACE_SECONDS = hosts.GRACE_SECONDS  # before the tests take it away


class Store:
  """What is used of jax's client, over the connections that jax would have."""

  def __init__(self):
    self.values, self.changed = {}, threading.Condition()
    self.listeners, self.clients = [], {}

  def key_value_set(self, key, value):
    with self.changed:
      if key in self.values:
        raise RuntimeError(f"ALREADY_EXISTS: {key}")
      self.values[key] = value
      self.changed.notify_all()

  def blocking_key_value_get(self, key, milliseconds):
    with self.changed:
      if not self.changed.wait_for(lambda: key in self.values, milliseconds / 1000):
        raise RuntimeError(f"DEADLINE_EXCEEDED: {key}")
      return self.values[key]

  def key_value_dir_get(self, key):
    with self.changed:
      return [each for each in self.values.items() if each[0].startswith(f"{key}/")]

  def key_value_delete(self, key):
    with self.changed:
      for name, _ in self.key_value_dir_get(key):
        del self.values[name]

  # The functions of jaxlib_internals.

  def serve_coordinator(self, address, processes):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address.removeprefix("unix:"))
    listener.listen()
    self.listeners.append(listener)

  def join_coordinator(self, address, processes, number, seconds):
    own = socket.socket(socket.AF_UNIX)
    own.connect(address.removeprefix("unix:"))
    self.clients[number] = own
    return self


@pytest.fixture
def ended(monkeypatch):
  """Gets the exit codes of processes that a loss would have ended."""
  codes = []
  for name, value in (("GRACE_SECONDS", 0.0), ("_LOOK_SECONDS", 0.05), ("_AGAIN_SECONDS", 0.05)):
    monkeypatch.setattr(hosts, name, value)
  monkeypatch.setattr(hosts.os, "_exit", codes.append)
  return codes


@pytest.fixture
def store(monkeypatch, ended):
  """The store; the joined Hosts get `finish`, which the end of their process calls."""
  store = Store()
  for name in ("serve_coordinator", "join_coordinator"):
    monkeypatch.setattr(jaxlib_internals, name, getattr(store, name))
  monkeypatch.setattr(jaxlib_internals, "has_started", lambda: False)
  monkeypatch.setattr(jaxlib_internals, "forget_coordinator", lambda: None)
  monkeypatch.setattr(hosts.atexit, "register", register)
  return store


def register(finish, *arguments):
  finish.__self__.finish = lambda: finish(*arguments)


def addresses(count):
  sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
  ports = [each.getsockname()[1] for each in sockets]
  for each in sockets:
    each.close()
  return [f"localhost:{port}" for port in ports]


def join_all(where, numbers, facts=None, timeout=20.0):
  """The Hosts of each process, or the error that it raised."""
  with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
    calls = [
      pool.submit(hosts.Hosts, where, number, (facts or {}).get(number, {}), timeout)
      for number in numbers
    ]
  return [call.exception() or call.result() for call in calls]


@contextlib.contextmanager
def joined(count):
  """The Hosts of processes that are all there."""
  before = set(threading.enumerate())
  processes = join_all(addresses(count), range(count))
  while not all(each._kept for each in processes):  # a thread of each begins its relay
    time.sleep(0.01)
  try:
    yield processes
  finally:
    for each in processes:
      each.leave()
    for each in processes:
      cut(each)
    for thread in set(threading.enumerate()) - before:
      thread.join(10)


def cut(process):
  """Ends the connections of a process as its end does."""
  for connection in process._kept:
    with contextlib.suppress(OSError):
      connection.shutdown(socket.SHUT_RDWR)


def of_all(processes, value_of):
  """What each process gets of an exchange of value_of(its number)."""
  with concurrent.futures.ThreadPoolExecutor(len(processes)) as pool:
    calls = [pool.submit(each.exchange, value_of(each.number)) for each in processes]
  return [call.exception() or call.result() for call in calls]


def test_processes_exchange_values_in_order_repeatedly(store):
  with joined(3) as processes:
    for scale in (1, 10, 0.1):
      value_of = lambda number, scale=scale: number * scale
      assert of_all(processes, value_of) == [[0, scale, 2 * scale]] * 3
    assert of_all(processes, lambda number: {"a": None}) == [[{"a": None}] * 3] * 3
    assert {each.token for each in processes} == {processes[0].token}
    assert len(store.values) <= 4  # those of the last turn


def test_all_hear_who_is_lost(store, ended):
  with joined(3) as processes:
    assert processes[0].lost() is None
    cut(processes[2])
    assert processes[0].lost(5).startswith("worker 2 (localhost:")
    assert processes[1].lost(5) == processes[0].lost()
    for error in of_all(processes[:2], lambda number: number):
      assert isinstance(error, hosts.LostError)
      assert str(error) == processes[0].lost()
    cut(processes[0])  # which ends for this loss
  assert processes[1].lost().startswith("worker 2 (localhost:")
  assert set(ended) == {errors.TRY_AGAIN}


def test_a_lost_first_process_is_heard_of(store, ended, capsys):
  with joined(3) as processes:
    cut(processes[0])
    for each in processes[1:]:
      assert each.lost(5).startswith("worker 0 (localhost:")
  assert "error: Worker 0 (localhost:" in capsys.readouterr().err
  assert set(ended) == {errors.TRY_AGAIN}


def test_who_leaves_in_order_is_not_lost_and_who_fails_says_why(store):
  with joined(3) as processes:
    processes[1].leave()
    cut(processes[1])
    assert processes[0].lost(0.3) is None
    with pytest.raises(hosts.LostError, match=r"worker 1 \(.*\) has ended its work"):
      processes[0].exchange(1)
    processes[2].leave("InputError: no such file")
    assert "has failed: InputError: no such file" in processes[0].lost(5)


def test_first_process_ends_last_and_others_go_on_without_it(store, ended, monkeypatch):
  monkeypatch.setattr(hosts, "GRACE_SECONDS", 1.0)
  with joined(2) as (first, second):
    first.finish()
    cut(first)
    assert second.lost(0.3) is None
    second.finish()
  assert ended == []


def test_a_process_that_lost_another_ends_at_once(store, ended):
  with joined(2) as (first, second):
    cut(second)
    assert first.lost(5)
    ended.clear()
    first.finish()
    assert ended == [errors.TRY_AGAIN]


def test_jax_never_sees_the_end_of_a_connection(store):
  """It would end the process by SIGABRT."""
  with joined(2) as (first, second):
    cut(first)
    assert second.lost(5)
    client = store.clients[1]
    client.settimeout(0.2)
    client.sendall(b"heartbeat")
    with pytest.raises(TimeoutError):
      client.recv(1)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="options of Linux")
def test_after_a_loss_of_power_a_process_ends_within_15_seconds():
  with socket.create_server(("localhost", 0)) as server:
    connection = hosts._opened(socket.create_connection(server.getsockname()))
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    idle, interval, count, unacknowledged = (
      connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"))
      for name in ("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT")
    )
    connection.close()
  # Where nothing is on its way, and where something is, which the kernel sends again and again.
  assert idle + interval * count + GRACE_SECONDS <= 14
  assert 0 < unacknowledged / 1000 + GRACE_SECONDS <= 14


def test_first_process_says_for_whom_it_waits_and_not_for_ever(store, monkeypatch, caplog):
  for name in ("_PATIENCE_SECONDS", "_TELL_SECONDS"):
    monkeypatch.setattr(hosts, name, 0.1)
  where = addresses(3)
  with caplog.at_level("INFO", logger="absl"):
    [error] = join_all(where, [0], timeout=0.5)
  assert isinstance(error, errors.WorkerLostError)
  missing = f"worker 1 ({where[1]}), worker 2 ({where[2]})"
  assert f"{missing} did not come within 0.5 s (RunConfig.cluster_timeout_secs)" in str(error)
  assert error.exit_code == 75
  assert f"Waiting for {missing}." in caplog.text


def test_a_worker_without_a_first_process_does_not_wait_for_ever(store):
  where = addresses(2)
  [error] = join_all(where, [1], timeout=0.1)
  assert isinstance(error, errors.WorkerLostError)
  assert f"worker 0 ({where[0]}) did not come within 0.1 s" in str(error)


def test_a_port_that_another_process_has_is_named(store):
  with socket.create_server(("localhost", 0)) as server:
    where = [f"localhost:{server.getsockname()[1]}", "localhost:1"]
    [error] = join_all(where, [0], timeout=0.1)
  assert f"worker 0 ({where[0]}) cannot use its port (Address already in use" in str(error)


GIN = "run.train_steps = 5\nrun.train_batch_size = {}\n"


def test_differing_gin_files_are_refused_with_differing_line(store):
  facts = {number: {"gin": GIN.format(64 if number == 2 else 32)} for number in range(3)}
  for error in join_all(addresses(3), range(3), facts):
    assert isinstance(error, errors.SettingError)
    assert "The workers differ: gin differs between worker 0 and worker 2" in str(error)
    assert "worker 0: run.train_batch_size = 32\n" in str(error)
    assert str(error).endswith("worker 2: run.train_batch_size = 64")
    assert "train_steps" not in str(error)


def test_other_versions_are_refused(store):
  facts = {0: {"the version of TensorFlow": "2.21.0"}, 1: {"the version of TensorFlow": "2.20.0"}}
  for error in join_all(addresses(2), range(2), facts):
    assert isinstance(error, errors.SettingError)
    assert "the version of TensorFlow differs between worker 0 and worker 1" in str(error)
    assert "    worker 0: 2.21.0\n    worker 1: 2.20.0" in str(error)


def test_strangers_and_returning_workers_do_not_disturb(store):
  """A probe that says nothing, another protocol; a worker that has ended, and comes again."""
  where = addresses(3)
  host, port = where[0].split(":")
  with concurrent.futures.ThreadPoolExecutor(3) as pool:
    first = pool.submit(hosts.Hosts, where, 0, {}, 30.0)
    for said in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"octet 00009", b"octet 00001"):
      while True:
        with contextlib.suppress(ConnectionRefusedError):  # it does not listen yet
          stranger = socket.create_connection((host, int(port)), 5)
          break
        time.sleep(0.01)
      stranger.sendall(said)
      stranger.close()
    second = pool.submit(hosts.Hosts, where, 2, {}, 30.0)
    time.sleep(0.2)  # the first process has all numbers now, one of them from a worker that ended
    others = [pool.submit(hosts.Hosts, where, 1, {}, 30.0), second]
    processes = [each.result(30) for each in (first, *others)]
  assert of_all(processes, lambda number: number) == [[0, 1, 2]] * 3
  for each in processes:
    each.leave()
    cut(each)


def test_jax_must_not_have_started(monkeypatch):
  monkeypatch.setattr(jaxlib_internals, "has_started", lambda: True)
  with pytest.raises(errors.SettingError, match="connect before the first use of jax"):
    hosts.Hosts(["a:1", "b:1"], 0, {}, 1.0)
