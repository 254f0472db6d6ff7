"""What an hour of a TPU costs: a table that the user keeps, with where each figure is from and of
what day.

Example:
    import trainer.preflight.prices
    trainer.preflight.prices.table = {"v2-8": (4.50, "USD", "2018-10-08", "https://...")}
"""

import dataclasses
import datetime

from trainer import errors
from trainer.config import gin_names
from trainer.preflight import topology


@dataclasses.dataclass(frozen=True)
class Price:
  """The price of a whole topology for an hour, as its source gave it on a day."""

  per_hour: float
  currency: str
  date: str
  source: str


@gin_names.configurable(module="trainer.preflight")
def prices(table=None):
  """dict of topology → Price.

  Args:
    table: dict of topology → (price of an hour, currency, day "YYYY-MM-DD", source). None for no
      prices at all: there are no defaults.

  Raises:
    SettingError: an entry is of another form, or of no known topology.
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
