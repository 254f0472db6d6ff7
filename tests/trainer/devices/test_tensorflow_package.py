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
  cpu = installed(tensorflow_cpu="2.21.0")
  assert (cpu.problem(), cpu.for_tpu, str(cpu)) == (None, False, "tensorflow-cpu 2.21.0, no libtpu")
  tpu = installed(tensorflow_tpu="2.20.0", libtpu="0.0.31")
  assert (tpu.problem(), tpu.for_tpu) == (None, True)
  assert str(tpu) == "tensorflow-tpu 2.20.0, libtpu 0.0.31"


@pytest.mark.parametrize(
  "versions, problem",
  [
    ({}, f"TensorFlow is not installed: {installation.command('cpu')}"),
    (
      {"tensorflow": "2.21.0", "tensorflow_cpu": "2.20.0"},
      "tensorflow-cpu 2.20.0 and tensorflow 2.21.0 are installed and overwrite each other",
    ),
    ({"tensorflow_tpu": "2.20.0"}, "tensorflow-tpu needs libtpu: pip install 'libtpu<=0.0.31'"),
    (
      {"tensorflow_tpu": "2.20.0", "libtpu": "0.0.32"},
      "libtpu 0.0.32 does not fit tensorflow-tpu 2.20.0, whose import would abort",
    ),
    ({"tensorflow_tpu": "2.20.0", "libtpu": "0.0.9"}, "libtpu 0.0.9 does not fit"),
  ],
)
def test_what_does_not_fit_is_said_with_what_to_do(versions, problem, monkeypatch):
  found = installed(**versions)
  assert problem in found.problem()
  monkeypatch.setattr(tensorflow_package, "installed", lambda: found)
  with pytest.raises(errors.SettingError):
    tensorflow_package.check()
