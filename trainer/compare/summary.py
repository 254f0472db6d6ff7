"""Computes figures from the rows: times of epochs and runs, costs, speed-ups, choices.

    found = Summary(rows, prices.read())
    found.choices()[0].fastest, found.choices()[0].cheapest

Times of epochs and runs are the median step time times their number of steps: no case runs a whole
training.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from trainer.compare import prices as prices_lib
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
  """

  case: Case
  fastest: results.Row | None
  cheapest: dict[str, results.Row]


@dataclasses.dataclass(frozen=True)
class Summary:
  """The joint results of rows and prices.

  Attributes:
    rows: of results.jsonl.
    prices: the price table.
  """

  rows: Sequence[results.Row]
  prices: Sequence[prices_lib.Price] = ()

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
      if other.machine and (other.device, other.hardware) == (row.device, row.hardware)
    }
    return f"{text} on {host}" if host and len(alike) > 1 else text

  def price(self, row: results.Row) -> prices_lib.Price | None:
    """Returns the price of a row's hardware; None if the table has none."""
    return prices_lib.find(self.prices, row.hardware)

  def cost(self, row: results.Row, unit: str) -> float | None:
    """Returns the cost of a step, epoch or run; None without a price, or without such a unit."""
    price, seconds = self.price(row), seconds_of(row, unit)
    return None if price is None or seconds is None else seconds / 3600 * price.per_hour

  def speedup(self, row: results.Row) -> float | None:
    """Returns how many times faster a row is than its machine's CPU, or else the fastest CPU.

    None for a CPU, and where no CPU ran the case. Virtual cores share a CPU, and only rehearse a
    TPU: their speed says nothing.
    """
    cpus = [other for other in self.cases()[case_of(row)] if other.device == "cpu"]
    if not cpus or row.device == "cpu" or is_rehearsal(row):
      return None
    # The nearest CPU: of the same precision and of the same host, if the results have one.
    same = [cpu for cpu in cpus if cpu.precision == row.precision] or cpus
    own = [cpu for cpu in same if cpu.machine.get("host") == row.machine.get("host")] or same
    return min(map(median, own)) / median(row)

  def choices(self) -> list[Choice]:
    """Returns the fastest and the cheapest row of each case."""
    found = []
    for case, rows in self.cases().items():
      able = [row for row in rows if not is_rehearsal(row)]
      found.append(Choice(case, min(able, key=median, default=None), self._cheapest(able)))
    return found

  def _cheapest(self, rows: Iterable[results.Row]) -> dict[str, results.Row]:
    found: dict[str, tuple[float, results.Row]] = {}
    for row in rows:
      price, cost = self.price(row), self.cost(row, "step")
      if price and cost and cost < found.get(price.currency, (float("inf"),))[0]:
        found[price.currency] = (cost, row)
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


def median(row: results.Row) -> float:
  """Returns the median seconds of a measured row."""
  if row.seconds is None:
    raise ValueError(f"no median: {row}")
  return row.seconds


def seconds_of(row: results.Row, unit: str) -> float | None:
  """Returns the time of a step (or a call), an epoch or a run, in seconds.

  Args:
    row: a row with figures.
    unit: "step", "epoch" or "run".

  Returns:
    A multiple of the median; None without such a unit.
  """
  steps: float | None = 1
  if unit != "step":
    steps = row.epoch_examples and row.epoch_examples / row.batch_size
  if unit == "run":
    steps = steps and row.epochs and steps * row.epochs
  return steps * median(row) if steps else None
