"""How an experiment would scale over more cores: a table of estimates from compiled steps.

    for fixed, cases in scaling.experiments(experiment, topologies).items(): ...
    print(scaling.text(scaling.with_efficiency(rows)))

A step takes as long as its arithmetic or its memory (`trainer.preflight.estimates`), and then its
all-reduce of the gradients. Each chip sends and receives 2 · (n - 1) / n times the bytes, the least
that an all-reduce over n chips can do (R. Thakur et al., "Optimization of collective communication
operations in MPICH", 2005). The range of an estimate has two ends:

- low: the network is a torus with all links working, and the all-reduce hides behind the step.
- high: the network is a mesh and loses half of its bandwidth at the edges, and the all-reduce waits
  for the step.

The estimates leave out latency, the input pipeline and stragglers. They rest on no measurement.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainer import errors
from trainer.cli import formatting
from trainer.preflight import bindings, prices
from trainer.preflight import topology as topology_lib
from trainer.settings import batch_sizes
from trainer.settings.kinds import Kind

if TYPE_CHECKING:
  from trainer.preflight import check

PER_CORE, GLOBAL = "per-core", "global"

SOURCE = (
  "estimates from the compiler's figures and the published bandwidth of the links; no measurement"
)

# From published runs on v3-8, v3-512 and v3-2048, see docs/validation.md.
CAVEAT = (
  "for ResNet-50 the estimates are 1.04 to 2 times the examples/s of published runs on v3-8 to "
  "v3-2048 (docs/validation.md)"
)


@dataclasses.dataclass(frozen=True)
class Row:
  """An experiment on one topology.

  Attributes:
    fixed: the batch that all rows share, PER_CORE or GLOBAL.
    topology: the topology.
    per_core: the per-core batch.
    all_reduce_bytes: of one step, as compiled.
    groups_of: the number of cores in an all-reduce, as compiled.
    low: seconds of a step at least, by the estimate.
    high: seconds of a step at most, by the estimate.
    efficiency: examples/s of a core, as a share of the first row's: (at least, at most).
    cost: of a million examples: (at least, at most, currency); None without a price.
    problem: why there are no figures, or "".
  """

  fixed: str
  topology: topology_lib.Topology
  per_core: int
  all_reduce_bytes: int = 0
  groups_of: int = 0
  low: float = 0.0
  high: float = 0.0
  efficiency: tuple[float, float] | None = None
  cost: tuple[float, float, str] | None = None
  problem: str = ""

  @property
  def global_batch(self) -> int:
    """Examples in a step of all cores."""
    return self.per_core * self.topology.replicas

  @property
  def examples_per_second(self) -> tuple[float, float]:
    """(at least, at most), of all cores."""
    return self.global_batch / self.high, self.global_batch / self.low


def experiments(
  experiment: bindings.Experiment, topologies: Sequence[topology_lib.Topology]
) -> dict[str, list[tuple[topology_lib.Topology, bindings.Experiment | str]]]:
  """Returns the work for the compiler: (topology, experiment) by the fixed batch.

  The batch is the configuration's on the first topology. If a global batch is not divisible, the
  reason takes the place of the experiment.

  Args:
    experiment: the experiment.
    topologies: two or more, the smallest first.

  Raises:
    SettingError: there are fewer than two topologies, or there is no training.
  """
  if len(topologies) < 2:
    raise errors.SettingError(
      "--scaling compares topologies: give two or more, as in --topology=v3-8 --topology=v3-32."
    )
  if cpus := [each.name for each in topologies if each.kind != "tpu"]:
    raise errors.SettingError(f"--scaling estimates for TPUs, and not for {cpus[0]}.")
  if Kind.TRAIN not in experiment.input_fns:
    raise errors.SettingError("--scaling needs a training: bind run.train_input_fn in a gin file.")
  first = topologies[0]
  per_core = experiment.per_core(Kind.TRAIN, first.replicas)
  whole = per_core * first.replicas

  def with_sizes(**sizes):
    return dataclasses.replace(experiment, sizes=batch_sizes.BatchSizes(**sizes))

  return {
    PER_CORE: [(each, with_sizes(train_per_core_batch_size=per_core)) for each in topologies],
    GLOBAL: [
      (
        each,
        f"cannot divide {whole:,} examples over {each.replicas:,} cores"
        if whole % each.replicas
        else with_sizes(train_batch_size=whole),
      )
      for each in topologies
    ],
  }


def row(fixed: str, report: "check.StepReport", price: prices.Price | None) -> Row:
  """Returns the row of a compiled training step; its efficiency comes later.

  Args:
    fixed: PER_CORE or GLOBAL.
    report: of a training step.
    price: of the report's topology.
  """
  topology = report.topology
  if report.failed or report.time is None or report.all_reduces is None:
    problem = f"{report.failed}: {report.problem.splitlines()[0] if report.problem else ''}"
    return Row(fixed, topology, report.per_core or 0, problem=problem)
  least, most = all_reduce_seconds(report.all_reduces.bytes, topology)
  made = Row(
    fixed,
    topology,
    report.per_core or 0,
    report.all_reduces.bytes,
    report.all_reduces.replicas,
    low=max(report.time.low, least),
    high=report.time.high + most,
  )
  if price is None:
    return made
  per_second = price.per_hour / 3600
  slowest, fastest = made.examples_per_second
  return dataclasses.replace(
    made, cost=(1e6 / fastest * per_second, 1e6 / slowest * per_second, price.currency)
  )


def all_reduce_seconds(size: int, topology: topology_lib.Topology) -> tuple[float, float]:
  """Returns the estimated seconds of an all-reduce over all chips, on a torus and on a mesh.

  Args:
    size: bytes of the gradients.
    topology: the chips. The cores of one chip add up first, in its memory.
  """
  moved = 2 * size * (topology.chips - 1) / topology.chips
  on_torus = moved / (topology.chip.link_gb_per_second * 1e9)
  return on_torus, 2 * on_torus


def with_efficiency(rows: Sequence[Row]) -> list[Row]:
  """Returns the rows with their efficiency relative to the first row with figures."""
  first = next((each for each in rows if not each.problem), None)
  if first is None:
    return list(rows)
  slowest, fastest = (rate / first.topology.replicas for rate in first.examples_per_second)

  def compared(each):
    if each.problem:
      return each
    low, high = (rate / each.topology.replicas for rate in each.examples_per_second)
    ends = sorted([low / slowest, high / fastest])
    return dataclasses.replace(each, efficiency=(ends[0], ends[1]))

  return [compared(each) for each in rows]


def text(rows: Sequence[Row]) -> str:
  """Returns the table of a terminal."""
  title = f"Scaling at a fixed {rows[0].fixed} batch"
  names = ["topology", "cores", "batch a core", "global batch", "ms a step", "examples/s"]
  names += ["efficiency", "all-reduce", f"a million examples{_currency(rows)}"]
  lines = [title, "-" * len(title)]
  lines += [formatting.table(names, [_cells(each) for each in rows], right=range(1, len(names)))]
  lines += [f"  {each.topology.name}: no figures: {each.problem}" for each in rows if each.problem]
  return "\n".join([*lines, f"  {SOURCE};", f"  {CAVEAT}"])


def _currency(rows):
  return next((f", {each.cost[2]}" for each in rows if each.cost), "")


def _cells(each):
  batch = [f"{each.per_core:,}", f"{each.global_batch:,}"] if each.per_core else ["", ""]
  cells = [each.topology.name, f"{each.topology.replicas:,}", *batch]
  if each.problem:
    return [*cells, *[""] * 5]
  slowest, fastest = each.examples_per_second
  low, high = each.efficiency or (0.0, 0.0)
  return [
    *cells,
    f"{1e3 * each.low:.3g} to {1e3 * each.high:.3g}",
    f"{_rounded(slowest)} to {_rounded(fastest)}",
    f"{low:.0%} to {high:.0%}",
    f"{formatting.memory_size(each.all_reduce_bytes)} over {each.groups_of:,}",
    f"{each.cost[0]:.3g} to {each.cost[1]:.3g}" if each.cost else "",
  ]


def _rounded(rate):
  """Three digits of a rate: more would promise more than an estimate knows."""
  return f"{float(f'{rate:.3g}'):,.0f}"


def as_dict(each: Row) -> dict[str, Any]:
  """Returns a row as plain values for JSON: bytes, seconds, examples/s."""
  values: dict[str, Any] = dict(
    fixed=each.fixed,
    topology=each.topology.name,
    cores=each.topology.replicas,
    hosts=each.topology.hosts,
    per_core_batch=each.per_core,
    global_batch=each.global_batch,
    problem=each.problem or None,
  )
  if not each.problem:
    values.update(
      all_reduce_bytes=each.all_reduce_bytes,
      all_reduce_over=each.groups_of,
      estimated_step_seconds=dict(low=each.low, high=each.high),
      estimated_examples_per_second=dict(
        zip(("low", "high"), each.examples_per_second, strict=True)
      ),
      estimated_efficiency=dict(zip(("low", "high"), each.efficiency or (), strict=False)),
      source=SOURCE,
    )
  if each.cost:
    values["estimated_cost_of_a_million_examples"] = dict(
      low=each.cost[0], high=each.cost[1], currency=each.cost[2]
    )
  return values
