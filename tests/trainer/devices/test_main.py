"""What `trainer.devices` says of drivers, PJRT and devices."""

import types

import pytest

from tests.trainer import mains
from trainer import errors
from trainer.devices import gpu_problems
from trainer.pjrt import devices, installed, tpu

NAME = "trainer.devices.main"


@pytest.fixture
def main():
  with mains.loaded(NAME) as loaded:
    yield loaded


@pytest.mark.parametrize(
  ("versions", "text"),
  [
    ({"jax": "0.9", "jaxlib": "0.9.1", "libtpu": "0.0.52"}, "jax 0.9, jaxlib 0.9.1, libtpu 0.0.52"),
    ({"jax": "0.9"}, "jax 0.9, no jaxlib, no libtpu (--device=tpu and xla:8 run by them: "),
    ({}, "no jax, no jaxlib, no libtpu ("),
  ],
)
def test_absent_packages_of_pjrt_are_named(main, monkeypatch, versions, text):
  monkeypatch.setattr(installed, "PACKAGES", ("jax", "jaxlib", "libtpu"))
  monkeypatch.setattr(installed, "versions", lambda: versions)
  found = main._of_pjrt()
  assert found == text if len(versions) == 3 else found.startswith(text)


@pytest.mark.parametrize(
  ("signs", "problem", "text"),
  [
    ("", "x", "no sign of one"),
    ("/dev/accel0", "", "/dev/accel0"),
    ("a", "no libtpu", "a. no libtpu"),
  ],
)
def test_a_tpu_has_its_signs_and_its_problem(main, monkeypatch, signs, problem, text):
  monkeypatch.setattr(tpu, "signs", lambda: signs)
  monkeypatch.setattr(tpu, "problem", lambda: problem)
  assert main._of_tpu() == text


def driver(**settings):
  return types.SimpleNamespace(**{"failure": "", "version": "580", "cuda": (13, 0), **settings})


@pytest.mark.parametrize(
  ("driver", "build", "text"),
  [
    (None, {}, "no sign of an NVIDIA GPU"),
    (driver(failure="x"), {}, "does not answer"),
    (driver(), {"is_cuda_build": False}, "580 for H100; CUDA 13.0 at the most, .* needs no CUDA"),
    (driver(), {"is_cuda_build": True, "cuda_version": "12.5"}, "needs CUDA 12.5"),
  ],
)
def test_a_driver_is_compared_with_tensorflow(main, monkeypatch, driver, build, text):
  import re

  monkeypatch.setattr(gpu_problems, "names", lambda driver: "H100")
  assert re.search(text, main._of_driver(driver, build))


def test_missing_xla_devices_are_told_in_words(main, monkeypatch):
  def fail(platform):
    raise errors.VersionError("jax is missing.")

  monkeypatch.setattr(devices, "connect", fail)
  assert main._xla_devices(types.SimpleNamespace(xla_devices=None)) == "jax is missing."
  assert main._xla_devices(types.SimpleNamespace(xla_devices="8 XLA devices")) == "8 XLA devices"
