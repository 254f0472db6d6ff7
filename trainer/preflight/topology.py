"""The TPUs that a step can be compiled for, by the names that Google Cloud gives them."""

import dataclasses

from trainer import errors

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Topology:
  """A TPU for which steps can be compiled.

  Attributes:
    name: Google Cloud's name.
    compiler_name: the TPU compiler's name.
    cores_per_chip: cores that run a replica each. Published figures are those of a chip.
    memory_gib: memory of a core that a program may use, from the compiler's message for a program
      that does not fit (libtpu 0.0.51).
    chip_tflops: the published peak of a chip in bfloat16.
    chip_gb_per_second: the published memory bandwidth of a chip (1 GB = 10^9 bytes).
    chips: number of chips.
    options: further settings of the compiler's topology.
  """

  name: str
  compiler_name: str
  cores_per_chip: int
  memory_gib: float
  chip_tflops: float
  chip_gb_per_second: float
  chips: int
  options: tuple = ()

  @property
  def replicas(self) -> int:
    """The number of cores, each of which runs a replica."""
    return self.chips * self.cores_per_chip

  @property
  def memory_bytes(self) -> int:
    """Memory of a core that a program may use."""
    return int(self.memory_gib * _GIB)

  @property
  def flops_per_second(self) -> float:
    """Peak of one core in bfloat16."""
    return self.chip_tflops * 1e12 / self.cores_per_chip

  @property
  def bytes_per_second(self) -> float:
    """One core's share of the memory bandwidth of its chip."""
    return self.chip_gb_per_second * 1e9 / self.cores_per_chip


# Sources of the peaks: https://cloud.google.com/tpu/docs/v3, and the pages of v4, v5e, v5p and v6e;
# for v2, N. Jouppi et al., "A domain-specific supercomputer for training deep neural networks"
# (2020). The number in a name counts cores if a chip has two (v2 to v4, v5p), otherwise chips.
TOPOLOGIES = {
  topology.name: topology
  for topology in (
    Topology("v2-8", "v2:2x2", 2, 7.48, 46, 700, chips=4),
    Topology("v3-8", "v3:2x2", 2, 15.48, 123, 900, chips=4),
    Topology("v4-8", "v4:2x2x1", 2, 15.25, 275, 1200, chips=4),
    Topology(
      "v4-8-megacore",
      "v4:2x2x1",
      1,
      30.75,
      275,
      1200,
      chips=4,
      options=(("chip_config_name", "megacore"),),
    ),
    Topology(
      "v5e-8",
      "v5e:2x4",
      1,
      15.75,
      197,
      819,
      chips=8,
      options=(("chips_per_host_bounds", (2, 4, 1)),),
    ),
    Topology("v5p-8", "v5p:2x2x1", 1, 95.73, 459, 2765, chips=4),
    Topology(
      "v6e-8",
      "v6e:2x4",
      1,
      31.24,
      918,
      1638,
      chips=8,
      options=(("chips_per_host_bounds", (2, 4, 1)),),
    ),
  )
}


def find(name: str) -> Topology:
  """Returns the topology of this name.

  Raises:
    SettingError: there is none; the message lists the names.
  """
  if name not in TOPOLOGIES:
    raise errors.SettingError(f"--topology={name}: expected {', '.join(TOPOLOGIES)}.")
  return TOPOLOGIES[name]
