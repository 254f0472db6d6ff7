"""The flags of `trainer.serve`, as the server gets them."""

import pytest

from tests.trainer import mains
from trainer.serving import serve


@pytest.fixture
def served(monkeypatch):
  """Returns the arguments of the server for a command line."""
  calls = []
  monkeypatch.setattr(serve, "serve", lambda *args, **settings: calls.append((args, settings)))

  def run(*arguments):
    with mains.loaded("trainer.serving.serve_main", *arguments) as main:
      main.main(["serve"])
    return calls.pop()

  return run


def test_units_of_flags_become_those_of_the_server(served):
  (base, name), settings = served(
    "--export_base=out/export", "--max_body_mb=0.5", "--reload_secs=0"
  )
  assert (base, name) == ("out/export", "model")
  assert settings["max_body"] == 512 * 1024
  assert settings["reload_secs"] == 0.0


def test_repeated_flags_keep_their_order(served):
  (base, _), settings = served("--model=b=x", "--model=a=y,z")
  assert base is None
  assert settings["models"] == ["b=x", "a=y,z"]


def test_a_server_is_for_this_machine_alone_by_default(served):
  _, settings = served("--export_base=x")
  assert (settings["host"], settings["port"], settings["access_log"]) == ("127.0.0.1", 8501, False)
  assert (settings["engine"], settings["precision"]) == ("auto", "float32")
