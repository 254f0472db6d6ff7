"""`trainer.data_service`: what its arguments must be, and what its servers get."""

import socket

import pytest
import tensorflow as tf

from tests.trainer import mains
from trainer import errors
from trainer.inputs import data_service

NAME = "trainer.inputs.data_service_main"


@pytest.mark.parametrize(
  ("arguments", "flags", "message"),
  [
    ([], [], "The command is missing: expected dispatcher or worker"),
    (["serve"], [], "The command is serve: "),
    (["worker", "dispatcher"], [], "The command is worker dispatcher: "),
    (["dispatcher"], [], "A dispatcher needs --port"),
    (["dispatcher"], ["--port=5", "--gin_file=a.gin"], "--dispatcher and --gin_file are for"),
    (["worker"], [], "--dispatcher is ''"),
    (["worker"], ["--dispatcher=host"], "--dispatcher is 'host'"),
    (["worker"], ["--dispatcher=grpc://host:5"], "--dispatcher is 'grpc://host:5'"),
    (["worker"], ["--dispatcher=host:0"], "a port of 1 to 65535"),
    # socket would take it for port 34463, and the worker would wait there.
    (["worker"], ["--dispatcher=host:99999"], "a port of 1 to 65535"),
  ],
)
def test_mistakes_are_told_before_a_server_starts(arguments, flags, message):
  flags = [*flags, "--timeout_secs=0"]
  with mains.loaded(NAME, *flags) as main, pytest.raises(errors.SettingError, match=message):
    main.main(["data_service", *arguments])


@pytest.fixture
def started(monkeypatch):
  """The configurations of the started servers, and the questions for a dispatcher."""
  found = {"asked": [], "servers": []}
  service = tf.data.experimental.service
  for name in ("DispatchServer", "WorkerServer"):
    monkeypatch.setattr(service, name, lambda config: found["servers"].append(config))
  monkeypatch.setattr(data_service, "require_answer", lambda *args: found["asked"].append(args))
  return found


@pytest.mark.parametrize(("address", "host"), [("a.b:5", "a.b"), ("[::1]:5", "::1")])
def test_a_worker_waits_for_the_dispatcher(started, address, host):
  flags = [f"--dispatcher={address}", "--timeout_secs=3", "--host=me", "--port=7"]
  with mains.loaded(NAME, *flags) as main:
    main._worker()
  [config] = started["servers"]
  assert started["asked"] == [(host, 5, 3.0)]
  assert (config.dispatcher_address, config.worker_address, config.port) == (
    address,
    "me:%port%",
    7,
  )


@pytest.mark.parametrize("journal", ["", "/shared/journal"])
def test_a_dispatcher_with_a_journal_survives_a_restart(started, journal):
  with mains.loaded(NAME, "--port=5", f"--journal={journal}") as main:
    main._dispatcher()
  [config] = started["servers"]
  assert (config.port, config.work_dir, config.fault_tolerant_mode) == (
    5,
    journal or None,
    bool(journal),
  )


def test_a_port_in_use_is_named():
  with socket.create_server(("localhost", 0)) as taken:
    port = taken.getsockname()[1]
    with (
      mains.loaded(NAME, f"--port={port}") as main,
      pytest.raises(errors.SettingError, match=f"does not start .--port={port}.: "),
    ):
      main._dispatcher()
