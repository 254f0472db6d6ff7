"""The database and the name of a sweep, by its flags."""

import pytest

from tests.trainer import mains


@pytest.mark.parametrize(
  ("flags", "expected"),
  [
    ([], ("sqlite:////data/digits/sweep.db", "digits")),
    (["--study=lr"], ("sqlite:////data/digits/sweep.db", "lr")),
    (["--storage=postgresql://u:p@h/n"], ("postgresql://u:p@h/n", "digits")),
  ],
)
def test_the_database_of_a_sweep(flags, expected):
  with mains.loaded("trainer.sweep.sweep_flags", *flags) as found:
    assert found.database("/data/digits") == expected
