"""A TPU whose cores are XLA devices of the CPU: all of --device=tpu but libtpu itself."""

import contextlib

import pytest

from trainer.devices import device
from trainer.pjrt import devices, installed, tpu


@contextlib.contextmanager
def connected(cores=8):
  """jax has a TPU of so many cores, and its packages are installed."""
  patch = pytest.MonkeyPatch()
  device._connect.cache_clear()
  try:
    patch.setattr(tpu, "require", lambda: installed.require("cpu"))
    patch.setattr(tpu, "find", lambda jax: devices.connect("cpu", cores).all)
    yield
  finally:
    patch.undo()
    device._connect.cache_clear()
