"""Prices of TPUs, as a gin file gives them."""

import pytest

from trainer import errors
from trainer.preflight import prices

GOOD = (4.5, "USD", "2018-10-08", "https://example.com/prices")


def test_a_table_of_prices():
  assert prices.prices({"v2-8": GOOD}) == {
    "v2-8": prices.Price("v2-8", 4.5, "USD", "2018-10-08", "https://example.com/prices")
  }
  assert prices.prices() == {}


@pytest.mark.parametrize(
  "entry",
  [
    (4.5, "USD", "2018-10-08"),
    4.5,
    ("free", "USD", "2018-10-08", "x"),
    (4.5, "USD", "October", "x"),
    (0, "USD", "2018-10-08", "x"),
    (-1, "USD", "2018-10-08", "x"),
    (4.5, "USD", "2018-10-08", ""),
  ],
)
def test_an_entry_that_is_no_price_is_shown(entry):
  with pytest.raises(errors.SettingError, match=r"prices.table\['v2-8'\] is "):
    prices.prices({"v2-8": entry})


def test_a_topology_that_nobody_knows():
  with pytest.raises(errors.OctetError, match="v99-8"):
    prices.prices({"v99-8": GOOD})
