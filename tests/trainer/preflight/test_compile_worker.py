"""The process that runs XLA's compiler: its devices, and its answers to failures."""

import pytest

from trainer import errors
from trainer.pjrt import devices
from trainer.preflight import compile_worker

pytest.importorskip("jax")


def request(**settings):
  return {
    "platform": "cpu",
    "replicas": 2,
    "program": "nowhere",
    "dump": "",
    "kept": "",
    **settings,
  }


def test_every_error_is_an_answer_with_the_versions(monkeypatch):
  monkeypatch.setattr(compile_worker, "_devices", lambda request: None)
  found = compile_worker.answer(request())
  assert set(found) == {"error", "versions"}
  assert "nowhere" in found["error"]
  assert set(found["versions"]) == {"jaxlib"}


def test_a_form_that_cannot_be_kept_is_another_answer(monkeypatch):
  def fail(*_):
    raise errors.OutputError("Cannot write kept (--compiled): disk full")

  monkeypatch.setattr(compile_worker, "_devices", lambda request: None)
  monkeypatch.setattr(compile_worker, "_compile", fail)
  found = compile_worker.answer(request())
  assert found["unkept"] == "Cannot write kept (--compiled): disk full"
  assert "error" not in found


def test_options_of_a_topology_are_tuples_again(monkeypatch):
  monkeypatch.setattr(devices, "describe", lambda *args, **options: (args, options))
  options = [["chips_per_host_bounds", [2, 2, 1]], ["num_slices", 1], ["wrap", "x"]]
  found = compile_worker._devices(
    request(platform="tpu", topology="v5e:2x2", topology_options=options)
  )
  assert found == (
    ("v5e:2x2", 2),
    {"chips_per_host_bounds": (2, 2, 1), "num_slices": 1, "wrap": "x"},
  )
