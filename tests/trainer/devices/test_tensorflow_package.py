"""Which TensorFlow is installed, and whether its parts fit each other."""

import importlib.metadata

import pytest

from trainer import errors
from trainer.cli import installation
from trainer.devices import tensorflow_package


def installed(**versions):
  """What is found where packages (with _ for -) of these versions are installed."""

  def version(name):
    if name.replace("-", "_") not in versions:
      raise importlib.metadata.PackageNotFoundError(name)
    return versions[name.replace("-", "_")]

  return tensorflow_package.installed(version)


def test_what_fits_is_no_problem():
  cpu = installed(tensorflow_cpu="2.21.0", jax="0.10.2")
  assert (cpu.problem(), str(cpu)) == (None, "tensorflow-cpu 2.21.0")


@pytest.mark.parametrize(
  "versions, problem",
  [
    ({}, f"This Python has no TensorFlow: {installation.command('cpu')}"),
    (
      {"tensorflow": "2.21.0", "tensorflow_cpu": "2.20.0"},
      "tensorflow-cpu 2.20.0 and tensorflow 2.21.0, and they overwrite each other",
    ),
    (
      {"tensorflow_tpu": "2.20.0", "tensorflow_cpu": "2.21.0"},
      "tensorflow-tpu 2.20.0 and tensorflow-cpu 2.21.0, and they overwrite each other",
    ),
  ],
)
def test_what_does_not_fit_is_said_with_what_to_do(versions, problem, monkeypatch):
  found = installed(**versions)
  assert problem in found.problem()
  monkeypatch.setattr(tensorflow_package, "installed", lambda: found)
  with pytest.raises(errors.SettingError):
    tensorflow_package.check()
