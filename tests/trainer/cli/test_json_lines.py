"""Messages over a socket: whole ones, parts of one, an end, and what is no message."""

import socket

import pytest

from trainer.cli import json_lines


@pytest.fixture
def both():
  here, there = socket.socketpair()
  with here, there:
    yield json_lines.Connection(here), there


def test_messages_arrive_in_order_and_whole(both):
  here, there = both
  there.sendall(b'{"a": 1}\n{"b": [2]}\n{"c"')
  assert here.receive() == [{"a": 1}, {"b": [2]}]
  there.sendall(b": 3")
  assert here.receive() == []
  there.sendall(b"}\n")
  assert here.receive() == [{"c": 3}]


def test_an_end_is_told_to_the_reader_and_to_the_writer(both):
  here, there = both
  assert here.send({"a": 1})
  assert there.recv(100) == b'{"a": 1}\n'
  there.close()
  assert here.receive() is None
  assert not here.send({"a": 1})


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\n", b"[1]\n", b"12345678901"])
def test_what_is_no_message_is_refused(both, said):
  _, there = both
  connection = json_lines.Connection(both[0].socket, longest=10)
  there.sendall(said)
  with pytest.raises(ValueError):
    connection.receive()
