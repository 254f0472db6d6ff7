"""Prices of hardware, from a CSV file with a source and a day for each.

    hardware,per_hour,currency,date,source
    v2-8,4.50,USD,2018-10-08,https://...

A price is for the hardware whose name contains the first column: "P100" for "Tesla P100-PCIE-16GB".
Of several names that fit, the longest counts. prices.csv beside this file has old prices, those of
published comparisons: --prices replaces them with a file of yours.
"""

import csv
import dataclasses
import datetime
import math
import pathlib
from collections.abc import Sequence

from trainer import errors

SHIPPED = str(pathlib.Path(__file__).with_name("prices.csv"))


@dataclasses.dataclass(frozen=True)
class Price:
  """A price.

  Attributes:
    hardware: a part of the name of a device.
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


_COLUMNS = [field.name for field in dataclasses.fields(Price)]


def read(path: str = SHIPPED) -> list[Price]:
  """Returns the prices in a file.

  Raises:
    SettingError: the file is missing, or a line has another form.
  """
  try:
    with open(path, newline="", encoding="utf-8") as file:
      rows = list(csv.DictReader(file, strict=True))
  except (OSError, UnicodeDecodeError, csv.Error) as error:
    raise errors.SettingError(f"--prices={path}: cannot read it ({error}).") from error
  return [_price(path, number, row) for number, row in enumerate(rows, 2)]  # Line 1: the titles.


def _price(path, number, row):
  try:
    # DictReader puts surplus cells under the key None, and None into missing ones.
    if sorted(map(str, row)) != sorted(_COLUMNS) or None in row.values():
      raise ValueError(f"the columns are {', '.join(map(str, row))}")
    return Price(**{**row, "per_hour": float(row["per_hour"])})
  except ValueError as error:
    raise errors.SettingError(
      f"--prices={path}, line {number} ({error}): expected {','.join(_COLUMNS)}, with the day as "
      "YYYY-MM-DD or nothing."
    ) from error


def find(prices: Sequence[Price], hardware: str) -> Price | None:
  """Returns the price of hardware; None if the table has none."""
  fitting = [price for price in prices if price.hardware.lower() in hardware.lower()]
  return max(fitting, key=lambda price: len(price.hardware), default=None)
