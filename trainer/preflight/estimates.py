"""Estimates of a step's time from the compiler's counts.

They rest on no measurement on a TPU, and predict nothing.

A range has two estimates as its ends:

- the roofline: the greater of FLOPs over the published peak and of bytes over the published
  bandwidth (S. Williams et al., "Roofline", 2009). No program is faster.
- the compiler's cost model, `optimal_seconds`. In libtpu 0.0.51, each custom call of the main
  computation counts as minus one second; this module adds their number back. Programs with a known
  number of custom calls show this; no document says it.

Both ends then have the all-reduce of the gradients. Each chip sends and receives 2 · (n - 1) / n
times the bytes, the least that an all-reduce over n chips can do (R. Thakur et al., "Optimization
of collective communication operations in MPICH", 2005). At the low end the network is a torus with
all links working, and the all-reduce hides behind the step. At the high end the network is a mesh
and loses half of its bandwidth at the edges, and the all-reduce waits for the step.

The estimates leave out latency, the input pipeline, the host and stragglers.
"""

import dataclasses

from trainer.preflight import compiler, hlo
from trainer.preflight import topology as topology_lib

SOURCE = "roofline of published peaks … the compiler's cost model; no measurement"


@dataclasses.dataclass(frozen=True)
class StepTime:
  """Seconds of a step.

  Attributes:
    roofline: see the module.
    cost_model: see the module; None if the compiler's figure is too coarse or makes no sense.
    bound: "compute" or "memory", the limit in the roofline.
    all_reduce: of the all-reduce on a torus; on a mesh it takes twice as long.
  """

  roofline: float
  cost_model: float | None
  bound: str
  all_reduce: float = 0.0

  @property
  def low(self) -> float:
    """The smaller of the two estimates, in seconds."""
    return max(min(self.roofline, self.cost_model or self.roofline), self.all_reduce)

  @property
  def high(self) -> float:
    """The larger of the two estimates, in seconds."""
    return max(self.roofline, self.cost_model or self.roofline) + 2 * self.all_reduce


def step_time(
  compiled: compiler.Compiled, topology: topology_lib.Topology, reduced_bytes: int = 0
) -> StepTime:
  """Estimates the time of a step from the compiler's figures.

  Args:
    compiled: the figures.
    topology: the chips. The cores of one chip add up first, in its memory.
    reduced_bytes: of the step's all-reduces.
  """
  compute, memory = (
    compiled.flops / topology.flops_per_second,
    compiled.bytes_accessed / topology.bytes_per_second,
  )
  cost_model = None
  if compiled.optimal_seconds is not None:
    calls = hlo.custom_calls(compiled.listing.hlo)
    corrected = compiled.optimal_seconds + calls
    # The figure has 24 bits, and custom calls take the upper ones.
    cost_model = corrected if calls * 2**-20 < corrected < 1000 * max(compute, memory) else None
  moved = 2 * reduced_bytes * (topology.chips - 1) / topology.chips
  return StepTime(
    max(compute, memory),
    cost_model,
    "compute" if compute >= memory else "memory",
    moved / (topology.chip.link_gb_per_second * 1e9),
  )
