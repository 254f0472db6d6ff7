"""Prices of TPUs, in a table in gin that has the source and the day of each price.

import trainer.preflight.prices
trainer.preflight.prices.table = {"v2-8": (4.50, "USD", "2018-10-08", "https://...")}
"""

import dataclasses
import datetime
from typing import Any

from trainer import errors
from trainer.config import gin_names
from trainer.preflight import topology


@dataclasses.dataclass(frozen=True)
class Price:
  """A price.

  Attributes:
    per_hour: of the whole topology.
    currency: such as "USD".
    date: the day on which the source had it, "YYYY-MM-DD".
    source: such as a URL.
  """

  per_hour: float
  currency: str
  date: str
  source: str


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
  topology.find(name)
  try:
    per_hour, currency, date, source = entry
    datetime.date.fromisoformat(date)
    price = Price(float(per_hour), str(currency), date, str(source))
  except (TypeError, ValueError) as error:
    raise errors.SettingError(
      f"prices.table[{name!r}] is {entry!r}; expected (price of an hour, "
      "currency, 'YYYY-MM-DD', source)."
    ) from error
  if not price.per_hour > 0 or not price.source:
    raise errors.SettingError(
      f"prices.table[{name!r}] is {entry!r}; a price is greater than 0 and has a source."
    )
  return price
