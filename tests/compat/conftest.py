"""Tests on two XLA devices start a process's eight: a later test may ask for all."""

import pytest

from trainer.devices import device as device_lib


@pytest.fixture(autouse=True)
def _eight_xla_devices(monkeypatch):
  """Connects all before a test connects two; jax cannot have more of them afterwards."""
  original = device_lib.connect

  def connect(device: str, *args, **kwargs):
    if str(device).startswith("xla:"):
      original("xla:8")
    return original(device, *args, **kwargs)

  monkeypatch.setattr(device_lib, "connect", connect)
