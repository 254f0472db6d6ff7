"""Prices of hardware, each with its source and day; TPU prices in a table in gin.

import trainer.preflight.prices
trainer.preflight.prices.table = {"v2-8": (4.50, "USD", "2018-10-08", "https://...")}
"""

import dataclasses
import datetime
import math
from typing import Any

from trainer import errors
from trainer.config import gin_names
from trainer.preflight import topology


@dataclasses.dataclass(frozen=True)
class Price:
  """A price.

  Attributes:
    hardware: a topology, or a part of the name of a device.
    per_hour: of the whole device, with all its cores.
    currency: such as "USD".
    date: the day of the price at the source, "YYYY-MM-DD"; "" if unknown.
    source: such as a URL.

  Raises:
    ValueError: a field is impossible for a price.
  """

  hardware: str
  per_hour: float
  currency: str
  date: str
  source: str

  def __post_init__(self) -> None:
    if self.date:
      datetime.date.fromisoformat(self.date)
    if not 0 < self.per_hour < math.inf:
      raise ValueError("a price is greater than 0")
    if not (self.hardware and self.currency and self.source):
      raise ValueError("a price has hardware, a currency and a source")

  def __str__(self) -> str:
    return f"{self.hardware}: {self.per_hour:.2f} {self.currency} an hour"


@gin_names.configurable(module="trainer.preflight")
def prices(table: dict[str, Any] | None = None) -> dict[str, Price]:
  """Returns the price of each topology in the table.

  Args:
    table: topology → (price of an hour, currency, day as "YYYY-MM-DD", source). There are no
      default prices.

  Raises:
    SettingError: an entry has another form, or its topology is unknown.
  """
  return {name: _price(name, entry) for name, entry in (table or {}).items()}


def _price(name, entry):
  topology.find_tpu(name)
  try:
    per_hour, currency, date, source = entry
    if not date:
      raise ValueError("a price has a day")
    return Price(name, float(per_hour), str(currency), date, str(source))
  except (TypeError, ValueError) as error:
    raise errors.SettingError(
      f"prices.table[{name!r}] is {entry!r} ({error}); expected (price of an hour, "
      "currency, 'YYYY-MM-DD', source)."
    ) from error
