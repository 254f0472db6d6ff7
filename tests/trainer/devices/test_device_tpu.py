"""Which device auto takes on a machine with a TPU, and what --tpu may be."""

import pytest

from trainer import errors
from trainer.devices import device
from trainer.pjrt import tpu


@pytest.fixture
def signs(monkeypatch):
  """signs(found, problem) is what the machine has."""

  def set_up(found, problem=""):
    monkeypatch.setattr(tpu, "signs", lambda: found)
    monkeypatch.setattr(tpu, "problem", lambda: problem)

  return set_up


def test_auto_takes_a_tpu_that_can_be_used(signs):
  signs("4 TPU chips on the PCI bus")
  assert device.choose() == ("tpu", "4 TPU chips on the PCI bus")


def test_auto_says_why_it_leaves_a_tpu(signs):
  signs("4 TPU chips on the PCI bus", "libtpu is not installed: pip install '.[tpu]'.")
  kind, reason = device.choose()
  assert kind != "tpu"
  assert "4 TPU chips on the PCI bus, but libtpu is not installed: pip install '.[tpu]'" in reason


def test_auto_queries_no_packages_without_a_sign_of_a_tpu(signs):
  signs("", "never seen")
  kind, reason = device.choose()
  assert kind != "tpu"
  assert "no sign of a TPU" in reason
  assert "never" not in reason


@pytest.mark.parametrize("name", ["auto", "tpu", "cpu", "cpu:8", "gpu"])
def test_a_tpu_elsewhere_is_refused(name):
  with pytest.raises(
    errors.SettingError,
    match=f"--tpu=mine with --device={name}: only the machine with the TPU's chips",
  ):
    device.connect(name, tpu="mine")


def test_a_tpu_of_this_machine_is_no_cpu():
  with pytest.raises(errors.SettingError, match="--tpu=local with --device=cpu"):
    device.connect("cpu", tpu="local")


def test_a_named_tpu_is_never_replaced(signs, monkeypatch):
  monkeypatch.setattr(tpu, "require", lambda: {"jax": "0.10.2", "jaxlib": "0.10.2"})
  monkeypatch.setattr(tpu, "_variables", lambda: [])
  monkeypatch.setattr(tpu.glob, "glob", lambda pattern: [])
  signs("")
  pytest.importorskip("jax")
  with pytest.raises(errors.SettingError, match="PJRT has no TPU here|without the TPU"):
    device.connect("tpu")
