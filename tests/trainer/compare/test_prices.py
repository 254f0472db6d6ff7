"""The price table: what ships, what fits, what is refused."""

import pytest

from trainer import errors
from trainer.compare import prices

HEADER = "hardware,per_hour,currency,date,source\n"


def test_the_shipped_prices_are_published_ones():
  found = {price.hardware: (price.per_hour, price.currency) for price in prices.read()}
  assert found["v3-8"] == (8.0, "USD")
  assert found["v2-8"] == (4.5, "USD")
  assert found["P100"] == (1.46, "USD")
  assert all(price.source for price in prices.read())


def test_the_longest_name_that_fits_counts(tmp_path):
  path = tmp_path / "prices.csv"
  path.write_text(HEADER + "TPU,1,USD,2026-01-01,a\nTPU v3,2,EUR,,b\nP100,3,USD,,c\n")
  table = prices.read(str(path))
  assert prices.find(table, "TPU v3-8").per_hour == 2
  assert prices.find(table, "TPU v2-8").per_hour == 1
  assert prices.find(table, "2 × Tesla p100-PCIE").per_hour == 3
  assert prices.find(table, "AMD EPYC, 2 cores") is None


@pytest.mark.parametrize(
  ("line", "problem"),
  [
    ("TPU,free,USD,2026-01-01,s", "could not convert"),
    ("TPU,0,USD,2026-01-01,s", "greater than 0"),
    ("TPU,nan,USD,2026-01-01,s", "greater than 0"),
    ("TPU,1,USD,January,s", "Invalid isoformat"),
    ("TPU,1,USD,2026-01-01,", "has hardware, a currency and a source"),
    ("TPU,1,USD", "the columns are"),
    ("TPU,1,USD,2026-01-01,s,more", "the columns are"),
  ],
)
def test_a_wrong_line_is_named(tmp_path, line, problem):
  path = tmp_path / "prices.csv"
  path.write_text(HEADER + line + "\n")
  with pytest.raises(errors.SettingError, match=rf"--prices=.*prices.csv, line 2 .*{problem}"):
    prices.read(str(path))


def test_a_missing_file_is_told(tmp_path):
  with pytest.raises(errors.SettingError, match="--prices="):
    prices.read(str(tmp_path / "none.csv"))
