"""The XLA devices of PJRT: eight devices of a CPU as a rehearsal, or an accelerator's.

connected = connect("cpu", 8)
"""

import dataclasses
import functools
import logging
import os
import platform as machine
from collections.abc import Callable
from typing import Any

from trainer import errors
from trainer.pjrt import hosts as hosts_lib
from trainer.pjrt import installed, tpu

# The platforms with a plug-in of jax: jax contains the CPU's; libtpu and CUDA bring their own.
PLATFORMS = ("cpu", "gpu", "tpu")


@dataclasses.dataclass(frozen=True)
class Devices:
  """XLA devices of one platform that run programs together.

  Attributes:
    platform: "cpu", "gpu" or "tpu".
    all: jax's devices, one per replica; the devices of a host follow each other.
    versions: versions of jax, jaxlib and the platform.
    full_precision: whether products in float32 use all bits of their operands. By default a GPU
      rounds them to TF32, a TPU to bfloat16.
    deterministic: whether a GPU computes the same bits each time.
    exchange: see `hosts.Hosts`.
  """

  platform: str
  all: tuple[Any, ...]
  versions: dict[str, str]
  full_precision: bool = False
  deterministic: bool = False
  exchange: Callable[[Any], list[Any]] = lambda value: [value]

  @property
  def count(self) -> int:
    """The number of devices, over all processes."""
    return len(self.all)

  @property
  def local(self) -> tuple[Any, ...]:
    """The devices of this process."""
    own = self.all[0].client.process_index()
    return tuple(device for device in self.all if device.process_index == own)

  @functools.cached_property
  def numbers(self) -> tuple[int, ...]:
    """The places of this process's devices in `all`."""
    return tuple(self.all.index(device) for device in self.local)

  @property
  def is_first(self) -> bool:
    """Whether the first of all devices is of this process."""
    return self.numbers[0] == 0

  @property
  def is_shared(self) -> bool:
    """Whether other processes drive some of the devices."""
    return len(self.local) < self.count

  @functools.cached_property
  def key(self) -> dict[str, str]:
    """What a compiled form of a program depends on, beside the program."""
    kinds = sorted({device.device_kind for device in self.all})
    places = [list(getattr(device, "coords", [device.id])) for device in self.all]
    key = {
      "platform": self.platform,
      "devices": ", ".join(kinds),
      "topology": str(places),
      "flags": " ".join(filter(None, map(os.environ.get, ("XLA_FLAGS", "LIBTPU_INIT_ARGS")))),
      **self.versions,
    }
    if self.full_precision or self.deterministic:
      key["arithmetic"] = (
        f"full_precision={self.full_precision}, deterministic={self.deterministic}"
      )
    if self.platform == "cpu":
      # The CPU's compiler uses the instructions of the machine that it runs on.
      key |= {"processor": _processor(), "process": str(self.all[0].client.process_index())}
    return key

  def __str__(self) -> str:
    kind = self.all[0].device_kind
    return f"{self.count} XLA device{'s' * (self.count > 1)} ({self.platform}, {kind})"


def connect(
  platform: str = "cpu", count: int | None = None, hosts: hosts_lib.Hosts | None = None
) -> Devices:
  """Returns the first `count` devices of a platform, on each of several hosts.

  jax makes its client once per process, with the number of CPU devices requested until then.

  Args:
    platform: one of PLATFORMS.
    count: the number of devices per host; None for all (on a CPU: one).
    hosts: the processes that drive the devices together; None for this process alone.

  Raises:
    SettingError: the platform is missing, or has too few devices, or the hosts have not equally
      many.
    VersionError: jax is missing, or has an untested version.
  """
  if platform not in PLATFORMS:
    raise errors.SettingError(f"{platform!r} is no platform: expected {', '.join(PLATFORMS)}.")
  versions = tpu.require() if platform == "tpu" else installed.require(platform)
  import jax

  # global_step is an int64 and the sum of the losses a float64: jax's default would use 32 bits.
  jax.config.update("jax_enable_x64", True)
  if platform == "cpu":
    _ask_for_cpu_devices(jax, count or 1)
  found = tpu.find(jax) if platform == "tpu" else _of_others(jax, platform)
  found = _by_host(found)
  count = len(found) if count is None else count * (hosts.count if hosts else 1)
  if len(found) < count:
    raise errors.SettingError(
      f"{count} XLA devices of the platform {platform} are too many: this process has "
      f"{len(found)}."
      + (
        " jax started before with fewer: connect before the first use of jax, or in a new process."
        if platform == "cpu"
        else ""
      )
    )
  connected = _devices(platform, found[:count], versions)
  if hosts is None:
    return connected
  if len(connected.local) * hosts.count != connected.count:
    raise errors.SettingError(
      f"This worker has {len(connected.local)} of the {connected.count} devices of {hosts.count} "
      "workers: all workers need equally many devices."
    )
  return dataclasses.replace(connected, exchange=hosts.exchange)


def describe(topology: str, count: int, **options: Any) -> Devices:
  """Returns the first `count` devices of an absent TPU: programs compile for them.

  Args:
    topology: its name for libtpu, such as "v5e:2x4".
    count: the number of devices.
    **options: further settings of libtpu's topology.

  Raises:
    SettingError: the topology has too few devices.
    VersionError: jax or libtpu is missing, or has an untested version.
  """
  versions = installed.require("tpu")
  from jax.experimental import topologies

  found = _by_host(topologies.get_topology_desc(topology, "tpu", **options).devices)
  if len(found) < count:
    raise errors.SettingError(f"{topology} has {len(found)} devices; expected {count}.")
  return _devices("tpu", found[:count], versions)


def _by_host(devices):
  """Returns devices host by host, in each host's own order."""
  return sorted(devices, key=lambda device: device.process_index)


def _devices(platform, found, versions):
  runtime = str(found[0].client.platform_version)
  return Devices(platform, tuple(found), {**versions, "runtime": runtime})


def _of_others(jax, platform):
  # jax tries all plug-ins, and would log that there is no TPU.
  logging.getLogger("jax._src.xla_bridge").setLevel(logging.WARNING)
  try:
    return jax.devices(platform)
  except RuntimeError as error:
    raise errors.SettingError(
      f"PJRT has no device of the platform {platform} here ({errors.first_line(error)}): "
      f"{installed.command(platform)} brings jax's plug-in."
    ) from error


def _ask_for_cpu_devices(jax, count):
  """Asks for devices of the CPU, where jax has not made its client yet."""
  try:
    # Only the CPU: otherwise jax would start the plug-in of every accelerator, and take it. Where
    # there is a TPU, `import jax` itself has made the list.
    own = (None, "", tpu.PLATFORMS)
    if not os.environ.get("JAX_PLATFORMS") and jax.config.jax_platforms in own:
      jax.config.update("jax_platforms", "cpu")
    if max(jax.config.jax_num_cpu_devices, 1) < count:
      jax.config.update("jax_num_cpu_devices", count)
  except RuntimeError:
    return  # The client exists already; `connect` counts its devices.


def _processor():
  """Returns the name of the processor and the instructions that it has."""
  try:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
      lines = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines())
  except OSError:
    return f"{machine.machine()} {machine.processor()}"
  named = {key.strip(): value.strip() for key, value in lines.items()}
  return f"{named.get('model name', machine.machine())} {named.get('flags', '')}".strip()
