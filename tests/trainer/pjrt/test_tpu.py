"""A TPU is found without jax, and what jax or libtpu says becomes one sentence."""

import importlib.metadata

import pytest

from trainer import errors
from trainer.pjrt import devices, installed, tpu


@pytest.fixture
def machine(monkeypatch, tmp_path):
  """machine(files, pci) has device files of these names and PCI functions (vendor, device)."""
  for name in (*tpu._VARIABLES, "JAX_PLATFORMS", "TPU_LIBRARY_PATH"):
    monkeypatch.delenv(name, raising=False)

  def make(files=(), pci=()):
    for index, numbers in enumerate(pci):
      (tmp_path / "pci" / str(index)).mkdir(parents=True, exist_ok=True)
      for name, number in zip(("vendor", "device"), numbers, strict=True):
        (tmp_path / "pci" / str(index) / name).write_text(f"{number}\n")
    for file in files:
      (tmp_path / file).parent.mkdir(exist_ok=True)
      (tmp_path / file).touch()
    monkeypatch.setattr(tpu, "_PCI", f"{tmp_path}/pci/*/vendor")
    monkeypatch.setattr(tpu, "_ACCEL", f"{tmp_path}/accel[0-9]*")
    monkeypatch.setattr(tpu, "_VFIO", f"{tmp_path}/vfio/[0-9]*")

  make()
  return make


@pytest.fixture
def packages(monkeypatch):
  """packages(libtpu="0.0.42") are those that are installed beside jax and jaxlib."""

  def install(**versions):
    versions = {"jax": installed.NEWEST, "jaxlib": installed.NEWEST, **versions}
    monkeypatch.setattr(installed, "versions", lambda *_: versions)

  return install


def test_chips_are_counted_as_jax_counts_them(machine):
  chip, network_card, disk = ("0x1ae0", "0x0063"), ("0x1ae0", "0x0042"), ("0x1af4", "0x0063")
  machine(pci=[network_card, disk])
  assert tpu.signs() == ""
  machine(pci=[network_card, disk, chip])
  assert tpu.signs() == "1 TPU chip on the PCI bus"
  machine(pci=[chip] * 4)
  assert tpu.signs() == "4 TPU chips on the PCI bus"


def test_the_numbers_are_those_of_jax():
  hardware = pytest.importorskip("jax._src.hardware_utils")
  # Each version of jax adds the newest chips.
  assert set(hardware._TPU_PCI_DEVICE_IDS) <= tpu.PCI_DEVICES
  assert hardware._GOOGLE_PCI_VENDOR_ID == tpu.PCI_VENDOR


def test_the_device_files_of_chips(machine, tmp_path, monkeypatch):
  machine(["accel0", "accel1"])
  assert tpu.signs() == f"{tmp_path}/accel0, {tmp_path}/accel1"
  monkeypatch.setattr(tpu, "_ACCEL", "")
  machine(["vfio/0", "vfio/vfio"])
  monkeypatch.setattr(tpu, "_ACCEL", "")
  assert tpu.signs() == ""  # it may be of any device
  monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-1")
  assert tpu.signs() == f"{tmp_path}/vfio/0"


def test_a_name_alone_is_no_sign(machine, monkeypatch):
  monkeypatch.setenv("TPU_NAME", "mine")
  assert tpu.signs() == ""


def test_what_keeps_a_run_from_a_tpu_is_known_before_jax_starts(machine, packages, monkeypatch):
  packages(libtpu="0.0.42")
  assert tpu.problem() == ""
  monkeypatch.setenv("JAX_PLATFORMS", "tpu,cpu")
  assert tpu.problem() == ""
  monkeypatch.setenv("JAX_PLATFORMS", "cpu")
  assert tpu.problem().startswith(
    "The environment restricts jax to cpu, without the TPU: set JAX_PLATFORMS="
  )
  packages()
  assert tpu.problem().startswith("libtpu is missing, and programs for XLA devices need it")
  packages(libtpu="0.0.42", jax="0.7.0")
  assert tpu.problem().startswith("jax 0.7.0 does not fit: Octet runs programs with 0.8.1")
  assert "[tpu]" in tpu.problem()


def test_a_libtpu_of_its_own_path(machine, monkeypatch, tmp_path):
  def version_of(name):
    if name == "libtpu":
      raise importlib.metadata.PackageNotFoundError(name)
    return installed.OLDEST

  with pytest.raises(errors.VersionError, match="libtpu is missing"):
    installed.require("tpu", version_of)
  (tmp_path / "libtpu.so").touch()
  monkeypatch.setenv("TPU_LIBRARY_PATH", str(tmp_path / "libtpu.so"))
  assert installed.require("tpu", version_of) == dict.fromkeys(("jax", "jaxlib"), installed.OLDEST)


def test_without_a_tpu_and_its_packages_both_are_said(machine, packages):
  packages()
  with pytest.raises(errors.VersionError) as caught:
    devices.connect("tpu")
  message = str(caught.value)
  assert message.startswith("No sign of a TPU (looked for chips on the PCI bus, /dev/accel*, /dev/")
  assert "libtpu is missing" in message
  assert "[tpu]" in message
  machine(["accel0"])
  with pytest.raises(errors.VersionError, match="accel0; libtpu is missing"):
    devices.connect("tpu")


class Jax:
  """jax, whose `devices` raises."""

  def __init__(self, error, platforms=None):
    self.config, self.error, self.started = self, error, None
    self.jax_platforms = platforms

  def update(self, name, value):
    setattr(self, name, value)

  def devices(self, platform):
    self.started = self.jax_platforms, platform
    raise RuntimeError(self.error)


# What jax 0.10.2 said with libtpu 0.0.51 on a machine without chips.
NO_CHIPS = (
  "Unable to initialize backend 'tpu': NOT_FOUND: TPU initialization failed: No jellyfish device "
  "found. (set JAX_PLATFORMS='' to automatically choose an available backend)"
)
# With its lock file held by another process.
LOCKED = (
  "Backend 'tpu' failed to initialize: ABORTED: Internal error when accessing libtpu multi-process "
  "lockfile. Run \"$ sudo rm /tmp/libtpu_lockfile\".. Available backends are ['cpu']"
)
# Without libtpu, and where JAX_PLATFORMS was cpu when jax started.
NO_LIBRARY = (
  "Backend 'tpu' failed to initialize: INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open "
  "shared object file: No such file or directory. Available backends are ['cpu']"
)
OTHERS = "Unknown backend tpu. Available backends are ['cpu']"


@pytest.mark.parametrize(
  "said, sentence",
  [
    (NO_CHIPS, "has no TPU here .* libtpu: NOT_FOUND: .* No jellyfish device found.. PJRT drives"),
    (LOCKED, "Another process uses the TPU"),
    (LOCKED.replace("Internal error", "The TPU is already in use"), "Another process uses the TPU"),
    (NO_LIBRARY, r"libtpu does not load \(INTERNAL: Failed .* directory\): pip .*\[tpu\]"),
    (OTHERS, "jax started in this process without the TPU"),
  ],
)
def test_what_jax_says_becomes_one_sentence(machine, said, sentence):
  machine(["accel0"])
  jax = Jax(said)
  with pytest.raises(errors.SettingError, match=sentence) as caught:
    tpu.find(jax)
  assert "\n" not in str(caught.value)
  assert "Available backends" not in str(caught.value)
  # The TPU was asked for by name, so that jax starts no other plug-in; later xla:8 may be.
  assert jax.started == (tpu.PLATFORMS, "tpu")
  assert jax.jax_platforms is None


def test_libtpu_is_not_started_where_nothing_hints_at_a_tpu(machine, monkeypatch):
  jax = Jax("never seen")
  with pytest.raises(errors.SettingError, match=r"PJRT has no TPU here \(looked for chips on"):
    tpu.find(jax)
  assert jax.started is None
  # jax's own switch, and a name of an environment, do hint at it.
  monkeypatch.setenv("JAX_FORCE_TPU_INIT", "1")
  with pytest.raises(errors.SettingError, match="jellyfish"):
    tpu.find(Jax(NO_CHIPS))


def test_a_jax_that_is_told_of_other_platforms(machine):
  machine(["accel0"])
  jax = Jax("never seen", platforms="cuda,cpu")
  with pytest.raises(errors.SettingError, match="restricts jax to cuda,cpu, without the TPU"):
    tpu.find(jax)
  assert jax.started is None
