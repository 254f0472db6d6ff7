"""Connections: the limit of time for headers, and how many are open."""

import asyncio
import resource

import pytest

from trainer.serving import connections as connections_lib

pytest.importorskip("uvicorn", reason="needs the extra [serve]")
HEADERS = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"


class Transport(asyncio.Transport):
  """Remembers what was written, and whether it was closed."""

  def __init__(self):
    super().__init__({"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.1", 2)})
    self.written, self.closed = b"", False

  def write(self, data):
    self.written += data

  def is_closing(self):
    return self.closed

  def close(self):
    self.closed = True

  def pause_reading(self):
    pass

  def resume_reading(self):
    pass


class Loop:
  """An event loop of which only the timers matter, with a clock of its own."""

  def __init__(self):
    self.now, self._timers, self.tasks = 0.0, [], []

  def call_later(self, seconds, function):
    timer = _Timer(self.now + seconds, function)
    self._timers.append(timer)
    return timer

  def create_task(self, coroutine, **options):
    self.tasks.append(asyncio.get_running_loop().create_task(coroutine, **options))
    return self.tasks[-1]

  def advance(self, seconds):
    self.now += seconds
    for timer in [timer for timer in self._timers if timer.due <= self.now]:
      self._timers.remove(timer)
      if timer.function:
        timer.function()


class _Timer:
  def __init__(self, due, function):
    self.due, self.function = due, function

  def cancel(self):
    self.function = None


async def echo(scope, receive, send):
  """Answers when all of the body has come."""
  while (await receive()).get("more_body"):
    pass
  await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
  await send({"type": "http.response.body", "body": b""})


def connect(connections, loop):
  import uvicorn
  from uvicorn.server import ServerState

  config = uvicorn.Config(
    echo, http=connections.protocol(), ws="none", log_config=None, timeout_keep_alive=90
  )
  config.load()
  made = config.http_protocol_class(
    config=config, server_state=ServerState(), app_state={}, _loop=loop
  )
  transport = Transport()
  made.connection_made(transport)
  return made, transport


@pytest.mark.parametrize("parts", [[], [b"POST / HT"], [b"POST / HT", b"TP/1.1\r\n", b"A: 1\r\n"]])
def test_headers_that_do_not_arrive_in_time(parts):
  async def run():
    loop, connections = Loop(), connections_lib.Connections(9, read_secs=10)
    made, transport = connect(connections, loop)
    for part in parts:
      loop.advance(3)
      made.data_received(part)
    loop.advance(9.9 - loop.now)
    assert not transport.closed
    loop.advance(0.2)
    assert transport.closed

  asyncio.run(run())


def test_request_with_headers_is_untimed_and_the_next_is_timed():
  async def run():
    loop, connections = Loop(), connections_lib.Connections(9, read_secs=10)
    made, transport = connect(connections, loop)
    made.data_received(HEADERS)
    loop.advance(30)  # the body is the application's to wait for
    assert not transport.closed
    made.data_received(b"{}")
    await asyncio.gather(*loop.tasks)
    assert transport.written.startswith(b"HTTP/1.1 200")
    loop.advance(30)  # nothing was sent since: uvicorn's own timeout_keep_alive
    assert not transport.closed
    made.data_received(b"POST")
    loop.advance(9)
    made.data_received(b" /")
    assert not transport.closed
    loop.advance(2)
    assert transport.closed

  asyncio.run(run())


def test_no_limit_of_time():
  async def run():
    loop = Loop()
    _, transport = connect(connections_lib.Connections(9, read_secs=0), loop)
    loop.advance(1e6)
    assert not transport.closed

  asyncio.run(run())


def test_open_connections_are_counted():
  async def run():
    connections = connections_lib.Connections(1, read_secs=10)
    first, _ = connect(connections, Loop())
    assert not connections.is_full()
    second, _ = connect(connections, Loop())
    assert connections.is_full()
    second.connection_lost(None)
    assert not connections.is_full()
    first.connection_lost(None)
    assert connections.count == 0

  asyncio.run(run())


@pytest.mark.parametrize(
  ("limits", "expected", "told"),
  [
    ((1024, 20000), (8448, 20000), False),
    ((1024, resource.RLIM_INFINITY), (8448, resource.RLIM_INFINITY), False),
    ((9000, 9000), None, False),
    ((1024, 4096), (4096, 4096), True),
  ],
)
def test_the_limit_of_open_files(limits, expected, told, monkeypatch, caplog):
  found = []
  monkeypatch.setattr(resource, "getrlimit", lambda which: limits)
  monkeypatch.setattr(resource, "setrlimit", lambda which, new: found.append(new))
  connections_lib.Connections(4096, read_secs=10).allow_files()
  assert found == ([expected] if expected else [])
  assert ("This system allows 4096 open files" in caplog.text) is told
