"""Estimates of time and cost from the compiler's counts.

They rest on no measurement on a TPU, and predict nothing.

A range has two estimates as its ends:

- the roofline: the greater of FLOPs over the published peak and of bytes over the published
  bandwidth (S. Williams et al., "Roofline", 2009). No program is faster.
- the compiler's cost model, `optimal_seconds`. In libtpu 0.0.51, each custom call of the main
  computation counts as minus one second; this module adds their number back. Programs with a known
  number of custom calls show this; no document says it.

Neither knows of input pipelines, of the host, or of waiting for the other cores.
"""

import dataclasses

from trainer.preflight import compiler, hlo, prices
from trainer.preflight import topology as topology_lib

SOURCE = "roofline of published peaks … the compiler's cost model; no measurement"


@dataclasses.dataclass(frozen=True)
class StepTime:
  """Seconds of a step.

  Attributes:
    roofline: see the module.
    cost_model: see the module; None if the compiler's figure is too coarse or makes no sense.
    bound: "compute" or "memory", the limit in the roofline.
  """

  roofline: float
  cost_model: float | None
  bound: str

  @property
  def low(self) -> float:
    """The smaller of the two estimates, in seconds."""
    return min(self.roofline, self.cost_model or self.roofline)

  @property
  def high(self) -> float:
    """The larger of the two estimates, in seconds."""
    return max(self.roofline, self.cost_model or self.roofline)


def step_time(compiled: compiler.Compiled, topology: topology_lib.Topology) -> StepTime:
  """Estimates the time of a step from the compiler's figures."""
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
  return StepTime(max(compute, memory), cost_model, "compute" if compute >= memory else "memory")


def epoch_cost(
  time: StepTime, global_batch: int, epoch_examples: int, price: prices.Price
) -> tuple[float, float]:
  """Returns the lowest and the highest estimated cost of one epoch.

  Args:
    time: the estimated time of a step.
    global_batch: examples in a step of all cores.
    epoch_examples: examples in an epoch; a last partial batch counts as a whole step.
    price: the price of the topology.
  """
  steps = -(-epoch_examples // global_batch)
  low, high = (steps * seconds / 3600 * price.per_hour for seconds in (time.low, time.high))
  return low, high
