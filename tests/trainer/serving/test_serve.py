"""The command that serves: mistakes are told before a model is loaded, and it answers."""

import gc
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.trainer.serving import exported as exported_lib
from trainer import errors
from trainer.cli import installation
from trainer.serving import serve as serve_lib


@pytest.fixture(autouse=True)
def frozen(monkeypatch):
  """How often what lives was left out of garbage collection; in this process it is not."""
  calls = []
  monkeypatch.setattr(gc, "freeze", lambda: calls.append(True))
  monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
  return calls


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"export_base": None}, "No --export_base"),
    ({"export_base": "x", "name": "a/b"}, "--name=a/b: expected letters"),
    ({"export_base": "x", "models": ["a=b"]}, "--export_base or --model, not both"),
    ({"export_base": None, "models": ["cats"]}, "--model=cats: expected NAME=DIR"),
    ({"export_base": None, "models": ["a/b=c"]}, "--model=a/b=c: expected letters"),
    ({"export_base": None, "models": ["a=b", "a=c"]}, "--model=a=c: a is b already"),
    ({"export_base": "x", "host": "no.such.host.invalid"}, "cannot listen there"),
    ({"export_base": "nowhere", "port": 0}, "There is no export in nowhere"),
  ],
)
def test_mistakes(settings, message, monkeypatch):
  if "nowhere" not in settings.values():
    monkeypatch.setattr(serve_lib.importlib.util, "find_spec", lambda name: True)
  else:
    pytest.importorskip("fastapi", reason="needs the extra [serve]")
    pytest.importorskip("prometheus_client", reason="needs the extra [serve]")
    pytest.importorskip("uvicorn", reason="needs the extra [serve]")
  with pytest.raises(errors.OctetError, match=message):
    serve_lib.serve(**settings)


def test_the_extra_that_is_missing(monkeypatch):
  monkeypatch.setattr(serve_lib.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(errors.SettingError, match=re.escape(installation.command("serve"))):
    serve_lib.serve("x")


def test_imports_are_frozen_out_of_gc_and_models_are_not(frozen, monkeypatch):
  pytest.importorskip("fastapi", reason="needs the extra [serve]")
  pytest.importorskip("prometheus_client", reason="needs the extra [serve]")
  pytest.importorskip("uvicorn", reason="needs the extra [serve]")
  from trainer.serving import catalogue

  def load(*arguments, **settings):
    assert frozen == [True]
    raise errors.InputError("There are no exports.")

  monkeypatch.setattr(catalogue, "load", load)
  with pytest.raises(errors.InputError):
    serve_lib.serve("x", port=0)


def test_it_answers_and_ends(tmp_path):
  pytest.importorskip("fastapi", reason="needs the extra [serve]")
  pytest.importorskip("prometheus_client", reason="needs the extra [serve]")
  pytest.importorskip("uvicorn", reason="needs the extra [serve]")
  exported_lib.make(tmp_path)
  command = [
    sys.executable,
    "-m",
    "trainer.serve",
    f"--export_base={tmp_path / 'export'}",
    "--port=0",
    "--engine=tensorflow",
  ]
  with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
    try:
      address = next(
        found[1] for line in process.stderr if (found := re.search(r"at (http://\S+)/$", line))
      )
      body = json.dumps({"signature_name": "from_bytes", "instances": []}).encode()
      with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"{address}/v1/models/model:predict", body, timeout=60)
      with urllib.request.urlopen(f"{address}/readyz", timeout=60) as answer:
        assert json.load(answer) == {"status": "ok"}
      process.send_signal(signal.SIGINT)
      process.stderr.read()
      process.wait(60)
    finally:
      process.kill()
  assert process.returncode in (0, 130)
