"""Finds a TPU that PJRT can drive on this machine, and its devices.

signs()    "4 TPU chips on the PCI bus", or "" without a TPU
problem()  why a run could not use it, or ""
find(jax)  the devices

Only `find` starts jax: importing it takes a second, which a run on a CPU should not pay.
"""

import glob
import os
import pathlib
import re
from typing import Any

from trainer import errors
from trainer.pjrt import installed

# jax counts chips this way (jax/_src/hardware_utils.py of 0.8.1 to 0.11.2): PCI functions with
# Google's vendor number and one of these device numbers. The vendor number alone also belongs to
# the network card and disks of every machine of Compute Engine.
PCI_VENDOR = "0x1ae0"
PCI_DEVICES = frozenset(
  {"0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076", "0x007c", "0x0083"}
)
_PCI = "/sys/bus/pci/devices/*/vendor"

# The device files of chips, up to v4 and from v5e on, for containers that hide the PCI bus and
# chips that are missing in the list.
_ACCEL, _VFIO = "/dev/accel[0-9]*", "/dev/vfio/[0-9]*"

# A TPU VM, or a container for its chips, sets these. They prove nothing alone: users of gcloud have
# TPU_NAME on a laptop. But without any of them, /dev/vfio may belong to any device.
_VARIABLES = ("TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "TPU_NAME", "JAX_FORCE_TPU_INIT")

# What jax starts: the list that `import jax` makes where it finds chips.
PLATFORMS = "tpu,cpu"

_NO_SIGN = "looked for chips on the PCI bus, /dev/accel*, /dev/vfio/*"
_REHEARSAL = (
  "--device=xla:8, or OCTET_DEVICE=cpu:8 for a program of TensorFlow 1, rehearses one on a CPU"
)


def signs() -> str:
  """Returns the evidence that this machine has a TPU, or ""."""
  if count := sum(_is_chip(vendor) for vendor in glob.glob(_PCI)):
    return f"{count} TPU chip{'s' * (count > 1)} on the PCI bus"
  files = glob.glob(_ACCEL) + (glob.glob(_VFIO) if _variables() else [])
  return ", ".join(sorted(files))


def problem() -> str:
  """Returns why a run cannot use a TPU, as far as Octet knows before jax starts; or ""."""
  try:
    installed.require("tpu")
  except errors.VersionError as error:
    return str(error)
  return _left_out(os.environ.get("JAX_PLATFORMS"))


def require() -> dict[str, str]:
  """Returns the versions of jax and jaxlib, by name.

  Raises:
    VersionError: jax, jaxlib or libtpu is missing, or has an untested version.
  """
  try:
    return installed.require("tpu")
  except errors.VersionError as error:
    found = signs() or f"No sign of a TPU ({_NO_SIGN}); {_REHEARSAL}"
    raise errors.VersionError(f"{found}; {error}") from None


def find(jax: Any) -> list[Any]:
  """Returns jax's devices of the TPU.

  Raises:
    SettingError: there is no TPU, another process uses it, or jax started without it.
  """
  platforms = jax.config.jax_platforms
  if sentence := _left_out(platforms):
    raise errors.SettingError(sentence)
  # libtpu would look for a TPU VM's settings and print several lines about missing ones.
  if not signs() and not _variables() and not glob.glob(_VFIO):
    raise errors.SettingError(_none(_NO_SIGN))
  # Without a list, jax would start every plug-in, and only log that libtpu failed.
  if not platforms:
    jax.config.update("jax_platforms", PLATFORMS)
  try:
    return jax.devices("tpu")
  except RuntimeError as error:
    jax.config.update("jax_platforms", platforms)  # for --device=xla:8 in this process
    raise errors.SettingError(failure(str(error))) from error


def failure(text: str) -> str:
  """Returns the sentence for jax's error about the devices of a TPU."""
  if "already in use" in text or "lockfile" in text:
    return (
      "Another process uses the TPU, and libtpu gives it to one at a time: end that process, such "
      "as the kernel of another notebook."
    )
  if "Unknown backend" in text:
    return (
      "jax started in this process without the TPU: connect to it before the first use of jax, or "
      "in a new process."
    )
  # What libtpu says stands between jax's own words and jax's advice.
  said = re.sub(r"^.*?(initialize backend 'tpu'|failed to initialize): ", "", text)
  said = re.split(r" \(set JAX_PLATFORMS|\.? Available backends", said)[0].strip(" .")
  if "Failed to open" in text:
    return f"libtpu does not load ({said}): {installed.command('tpu')}."
  return _none(f"{signs() or _NO_SIGN}; libtpu: {said}")


def _none(reason):
  return (
    f"PJRT has no TPU here ({reason}). PJRT drives the chips of its own machine: a TPU VM, or a "
    f"notebook of Colab or Kaggle with a TPU; {_REHEARSAL}."
  )


def _left_out(platforms):
  """Returns a sentence if the settings of jax leave the TPU out, otherwise ""."""
  if not platforms or "tpu" in platforms.split(","):
    return ""
  return (
    f"The environment restricts jax to {platforms}, without the TPU: set "
    f"JAX_PLATFORMS={PLATFORMS}, in a process without other devices of jax."
  )


def _variables():
  return [name for name in _VARIABLES if os.environ.get(name)]


def _is_chip(vendor):
  device = pathlib.Path(vendor).with_name("device")
  try:
    numbers = [path.read_text().strip() for path in (pathlib.Path(vendor), device)]
  except OSError:  # a function that goes away meanwhile
    return False
  return numbers[0] == PCI_VENDOR and numbers[1] in PCI_DEVICES
