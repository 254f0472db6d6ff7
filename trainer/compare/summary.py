"""Computes the report's figures from the rows: times of epochs and runs, costs, speed-ups, choices.

    found = Summary(rows, prices.read(), published.read())
    found.choices()[0].fastest, found.choices()[0].cheapest

Times of epochs and runs are the median step time times their number of steps: no case runs a whole
training.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from trainer.compare import prices as prices_lib
from trainer.compare import published as published_lib
from trainer.compare import results
from trainer.devices import device_names

Case = tuple[str, str, int, int | None]


@dataclasses.dataclass(frozen=True)
class Choice:
  """The best measured devices for one case, rehearsals excluded.

  Attributes:
    case: of the rows.
    fastest: the row with the shortest time; None without a measurement.
    cheapest: the row with the lowest cost, by currency.
    in_time: by currency: the row with the lowest cost within the deadline.
  """

  case: Case
  fastest: results.Row | None
  cheapest: dict[str, results.Row]
  in_time: dict[str, results.Row]


@dataclasses.dataclass(frozen=True)
class Speedup:
  """How many times faster a row is than a CPU.

  Attributes:
    row: the row.
    over: the row of the CPU.
    low: the ratio by the medians; for an estimate the lower end.
    high: the same; for an estimate the upper end.
  """

  row: results.Row
  over: results.Row
  low: float
  high: float


@dataclasses.dataclass(frozen=True)
class Summary:
  """The joint results of rows, prices and published figures.

  Attributes:
    rows: of results.jsonl.
    prices: the price table.
    published: the published figures.
    deadline_seconds: the longest that a run may take; None for no deadline.
  """

  rows: Sequence[results.Row]
  prices: Sequence[prices_lib.Price] = ()
  published: Sequence[published_lib.Figure] = ()
  deadline_seconds: float | None = None

  def good(self, kind: str = results.MEASURED) -> list[results.Row]:
    """Returns the rows of a kind with figures."""
    return [row for row in self.rows if row.kind == kind and row.status == results.OK]

  def bad(self) -> list[results.Row]:
    """Returns the rows without figures."""
    return [row for row in self.rows if row.status != results.OK]

  def cases(self) -> dict[Case, list[results.Row]]:
    """Returns the rows with figures by case, in the order of the rows."""
    found: dict[Case, list[results.Row]] = {}
    for row in self.rows:
      if row.status == results.OK:
        found.setdefault(case_of(row), []).append(row)
    return found

  def label(self, row: results.Row) -> str:
    """Returns the device and hardware of a row; with the host where two machines look the same."""
    text = f"{row.device} ({row.hardware})" if row.hardware else row.device
    if row.precision != "float32":
      text += f", {row.precision}"
    host = row.machine.get("host", "")
    alike = {
      other.machine.get("host", "")
      for other in self.rows
      if other.machine
      and (other.kind, other.device, other.hardware) == (row.kind, row.device, row.hardware)
    }
    return f"{text} on {host}" if host and len(alike) > 1 else text

  def price(self, row: results.Row) -> prices_lib.Price | None:
    """Returns the price of a row's hardware; None if the table has none."""
    return prices_lib.find(self.prices, row.hardware)

  def cost(self, row: results.Row, unit: str) -> tuple[float, float] | None:
    """Returns the cost of a step, epoch or run; twice the same if measured, an estimate's range.

    None without a price, or without such a unit.
    """
    price, times = self.price(row), seconds_of(row, unit)
    if price is None or times is None:
      return None
    return times[0] / 3600 * price.per_hour, times[-1] / 3600 * price.per_hour

  def speedups(self) -> list[Speedup]:
    """Returns how much faster each row is than its machine's CPU, or else the fastest CPU.

    Virtual cores share a CPU, and only rehearse a TPU: their speed says nothing.
    """
    found = []
    for rows in self.cases().values():
      cpus = [row for row in rows if row.device == "cpu" and row.kind == results.MEASURED]
      for row in rows:
        # The nearest CPU: of the same precision and of the same host, if the results have one.
        same = [cpu for cpu in cpus if cpu.precision == row.precision] or cpus
        own = [cpu for cpu in same if cpu.machine.get("host") == row.machine.get("host")] or same
        if own and row.device != "cpu" and not is_rehearsal(row):
          over = min(own, key=lambda cpu: median(cpu))
          low, high = seconds_of(row, "step") or (0.0, 0.0)
          # The longest time gives the smallest ratio.
          found.append(Speedup(row, over, median(over) / high, median(over) / low))
    return found

  def choices(self) -> list[Choice]:
    """Returns the fastest and the cheapest row of each case."""
    return [
      self._choice(case, [row for row in rows if is_choice(row)])
      for case, rows in self.cases().items()
    ]

  def _choice(self, case, rows):
    in_time = rows
    if self.deadline_seconds is not None:
      times = {id(row): seconds_of(row, "run") for row in rows}
      in_time = [
        row for row in rows if (time := times[id(row)]) and time[1] <= self.deadline_seconds
      ]
    return Choice(
      case,
      min(rows, key=median, default=None),
      self._cheapest(rows),
      self._cheapest(in_time) if self.deadline_seconds is not None else {},
    )

  def _cheapest(self, rows: Iterable[results.Row]) -> dict[str, results.Row]:
    found: dict[str, tuple[float, results.Row]] = {}
    for row in rows:
      price, cost = self.price(row), self.cost(row, "step")
      if price and cost and cost[0] < found.get(price.currency, (float("inf"),))[0]:
        found[price.currency] = (cost[0], row)
    return {currency: row for currency, (_, row) in found.items()}


def case_of(row: results.Row) -> Case:
  """Returns the values that must be equal in rows to compare them."""
  return row.workload, row.mode, row.batch_size, row.examples


def case_title(case: Case) -> str:
  """Returns a case in words."""
  workload, mode, batch_size, examples = case
  if mode == "predict":
    return f"{workload}: predict {examples:,}"
  return f"{workload}, batch {batch_size:,}"


def title(row: results.Row) -> str:
  """Returns the case of a row in words."""
  return case_title(case_of(row))


def is_rehearsal(row: results.Row) -> bool:
  """Whether a row is of virtual cores, or of XLA devices of a CPU: they rehearse a TPU."""
  kind, count = device_names.split(row.device)
  return kind in ("cpu", "xla") and count is not None


def is_choice(row: results.Row) -> bool:
  """Whether a row may count as the best: measured, and no rehearsal."""
  return row.kind == results.MEASURED and not is_rehearsal(row)


def median(row: results.Row) -> float:
  """Returns the median seconds of a measured row."""
  if row.seconds is None:
    raise ValueError(f"no median: {row}")
  return row.seconds


def seconds_of(row: results.Row, unit: str) -> tuple[float, float] | None:
  """Returns the time of a step (or a call), an epoch or a run, in seconds.

  Args:
    row: a row with figures.
    unit: "step", "epoch" or "run".

  Returns:
    The range of an estimate; for a measured row twice its median. None without such a unit.
  """
  low, high = (row.low, row.high) if row.kind == results.ESTIMATED else (row.seconds, row.seconds)
  if low is None or high is None:
    return None
  steps: float | None = 1
  if unit != "step":
    steps = row.epoch_examples and row.epoch_examples / row.batch_size
  if unit == "run":
    steps = steps and row.epochs and steps * row.epochs
  return (steps * low, steps * high) if steps else None
