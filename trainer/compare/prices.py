"""Prices of hardware, from a CSV file with a source and a day for each.

    hardware,per_hour,currency,date,source
    TPU v2,4.50,USD,2018-10-08,https://...

A price is for the hardware whose name contains the first column: "P100" for "Tesla P100-PCIE-16GB".
Of several names that fit, the longest counts. prices.csv beside this file has the articles' prices,
and they are old: --prices replaces them with a file of yours.
"""

import csv
import dataclasses
import pathlib
from collections.abc import Sequence

from trainer import errors
from trainer.preflight.prices import Price

SHIPPED = str(pathlib.Path(__file__).with_name("prices.csv"))

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
