"""Topologies to compile for: TPUs, by Google Cloud's names, and a CPU.

topology.find("v3-8")     # one board
topology.find("v3-2048")  # a whole pod
topology.find("xla:8")    # eight XLA devices of this machine's CPU
"""

import dataclasses
import math
import re

from trainer import errors

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
  """A kind of TPU chip.

  Attributes:
    name: Google Cloud's name of the version.
    cores: cores that run a replica each. Published figures are per chip.
    memory_gib: memory of a core for programs, from the compiler's message for a program that does
      not fit (libtpu 0.0.51).
    tflops: the published peak in bfloat16.
    gb_per_second: the published memory bandwidth (1 GB = 10^9 bytes).
    link_gb_per_second: the published bandwidth of all links to other chips together, in one
      direction.
    compiler_name: the TPU compiler's name of the version.
    platform: of PJRT's plug-in. For a CPU, there is no other figure.
  """

  name: str
  cores: int
  memory_gib: float
  tflops: float
  gb_per_second: float
  link_gb_per_second: float
  compiler_name: str
  platform: str = "tpu"


@dataclasses.dataclass(frozen=True)
class Topology:
  """A target to compile for: a board of TPUs, a slice of a pod, or the devices of a CPU.

  Attributes:
    name: Google Cloud's name.
    chip: the kind of its chips.
    shape: the number of chips along each axis of the network between them.
    options: further settings of the compiler's topology.
  """

  name: str
  chip: Chip
  shape: tuple[int, ...]
  options: tuple = ()

  @property
  def kind(self) -> str:
    """The kind of the device with such cores, see `trainer.devices.device`."""
    return "tpu" if self.chip.platform == "tpu" else "xla"

  @property
  def compiler_name(self) -> str:
    """The TPU compiler's name."""
    return f"{self.chip.compiler_name}:{'x'.join(map(str, self.shape))}"

  @property
  def chips(self) -> int:
    """The number of chips."""
    return math.prod(self.shape)

  @property
  def replicas(self) -> int:
    """The number of cores; each runs a replica."""
    return self.chips * self.chip.cores

  @property
  def memory_bytes(self) -> int:
    """Memory of a core that a program may use."""
    return int(self.chip.memory_gib * _GIB)

  @property
  def flops_per_second(self) -> float:
    """Peak of one core in bfloat16."""
    return self.chip.tflops * 1e12 / self.chip.cores

  @property
  def bytes_per_second(self) -> float:
    """One core's share of its chip's memory bandwidth."""
    return self.chip.gb_per_second * 1e9 / self.chip.cores


# Sources of the peaks: https://cloud.google.com/tpu/docs/v3, and the pages of v4, v5e, v5p and v6e;
# for v2, N. Jouppi et al., "A domain-specific supercomputer for training deep neural networks"
# (2020). Sources of the links: for v2 and v3 the same paper (4 links of 496 and of 656 Gbit/s); for
# v4 the all-reduce bandwidth of a pod on its page (1.1 PB/s of 4,096 chips); for v5p its page
# (4,800 Gbit/s); for v5e and v6e their pages, half of "bidirectional bandwidth" (400 and 800 GB/s).
# That is also their pod's all-reduce bandwidth (51.2 and 102.4 TB/s) over its 256 chips.
_V2 = Chip("v2", 2, 7.48, 46, 700, 248, "v2")
_V3 = Chip("v3", 2, 15.48, 123, 900, 328, "v3")
_V4 = Chip("v4", 2, 15.25, 275, 1200, 268, "v4")
_V4_MEGACORE = Chip("v4-megacore", 1, 30.75, 275, 1200, 268, "v4")
_V5E = Chip("v5e", 1, 15.75, 197, 819, 200, "v5e")
_V5P = Chip("v5p", 1, 95.73, 459, 2765, 600, "v5p")
_V6E = Chip("v6e", 1, 31.24, 918, 1638, 400, "v6e")
_CPU = Chip("XLA device of the CPU", 1, 0, 0, 0, 0, "cpu", "cpu")

# What libtpu 0.0.51 accepts. The number in a name counts cores if a chip has two (v2 to v4, v5p),
# otherwise chips.
_SHAPES_2D = ((2, 2), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32), (32, 32))
_SHAPES_3D = (
  *((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4)),
  *((4, 4, 8), (4, 8, 8), (8, 8, 8), (8, 8, 16), (8, 16, 16)),
)
_OF_TWO_CORES = (
  (_V2, tuple(shape for shape in _SHAPES_2D if math.prod(shape) in (4, 16, 64, 128, 256))),
  (_V3, _SHAPES_2D),
  (_V4, _SHAPES_3D),
  (_V5P, _SHAPES_3D),
)
_V5E_SHAPES = ((4, 4), (4, 8), (8, 8), (8, 16), (16, 16))


def _board(chip):
  """Eight chips that one machine drives."""
  return Topology(f"{chip.name}-8", chip, (2, 4), (("chips_per_host_bounds", (2, 4, 1)),))


def _slice(chip, shape):
  """Chips that several machines drive, four each."""
  bounds = (("chips_per_host_bounds", (2, 2, 1)),)
  return Topology(f"{chip.name}-{math.prod(shape)}", chip, shape, bounds)


TOPOLOGIES = {
  topology.name: topology
  for topology in (
    *(
      Topology(f"{chip.name}-{2 * math.prod(shape)}", chip, shape)
      for chip, shapes in _OF_TWO_CORES
      for shape in shapes
    ),
    Topology("v4-8-megacore", _V4_MEGACORE, (2, 2, 1), (("chip_config_name", "megacore"),)),
    *(_board(chip) for chip in (_V5E, _V6E)),
    *(_slice(chip, shape) for chip in (_V5E, _V6E) for shape in _V5E_SHAPES),
  )
}


def find(name: str) -> Topology:
  """Returns the topology of this name: of a TPU, or "xla:8" and the like.

  Raises:
    SettingError: there is none; the message lists the names.
  """
  match = re.fullmatch(r"xla:([1-9]\d*)", name)
  return Topology(name, _CPU, (int(match[1]),)) if match else find_tpu(name)


def find_tpu(name: str) -> Topology:
  """Returns the TPU of this name; "v5litepod-N" is another name of "v5e-N".

  Raises:
    SettingError: there is none; the message lists the names.
  """
  known = re.sub("^v5litepod-", "v5e-", name)
  if known not in TOPOLOGIES:
    raise errors.SettingError(f"--topology={name}: expected {names()}.")
  return TOPOLOGIES[known]


def names() -> str:
  """Returns the names for a person, by kind of chip: "v2-8, 32, 128; v3-8, 32; ..."."""
  sizes: dict[str, list[str]] = {}
  for topology in TOPOLOGIES.values():
    if topology.chip is not _V4_MEGACORE:
      sizes.setdefault(topology.chip.name, []).append(topology.name.rpartition("-")[2])
  return "; ".join([*(f"{kind}-{', '.join(sizes[kind])}" for kind in sizes), "v4-8-megacore"])
