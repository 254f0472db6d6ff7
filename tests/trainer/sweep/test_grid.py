"""Lists of trials put together from lists of values."""

import optuna
import pytest

from trainer import errors
from trainer.sweep import grid, optuna_parts


def test_product_zip_and_chain():
  zipped = grid.Zip([{"B": [32, 64]}, {"S": [200, 100]}])
  assert zipped.points() == [{"B": "32", "S": "200"}, {"B": "64", "S": "100"}]
  points = grid.Chain([grid.Product([{"a.o": ["x", "y"]}, zipped]), {"a.o": ["z"]}]).points()
  assert points == [
    {"a.o": "'x'", "B": "32", "S": "200"},
    {"a.o": "'x'", "B": "64", "S": "100"},
    {"a.o": "'y'", "B": "32", "S": "200"},
    {"a.o": "'y'", "B": "64", "S": "100"},
    {"a.o": "'z'"},
  ]


def test_a_dict_is_the_product_of_its_lists():
  assert grid.points_of({"A": [1, 2], "B": [3, 4]}) == [
    {"A": "1", "B": "3"},
    {"A": "1", "B": "4"},
    {"A": "2", "B": "3"},
    {"A": "2", "B": "4"},
  ]


def test_each_trial_gets_its_point():
  points = grid.Grid(grid.Chain([{"A": [1, 2], "B": [3, 4]}, {"A": [5]}]).points())
  study = optuna.create_study()
  found = []
  for number in range(len(points.points)):
    study.sampler = optuna_parts.sampler("random", {}, 0, number, points.fixed(number))
    found.append(points.suggest(study.ask()))
  assert found == points.points


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: grid.Zip([{"A": [1]}, {"B": [1, 2]}]).points(), "equally long; they have 1, 2 points"),
    (lambda: grid.Product([{"A": [1]}, {"A": [2]}]).points(), "sets 'A' in two parts"),
    (lambda: grid.Product([]).points(), "at least one part"),
    (lambda: grid.Chain([{"A": []}]).points(), "must be a dict of lists"),
    (lambda: grid.points_of(3), "must be a dict of lists"),
    (lambda: grid.Grid([{"A": "1"}, {"A": "1"}]), "more than once"),
    (lambda: grid.Grid([]), "no point"),
  ],
)
def test_what_cannot_be(make, message):
  with pytest.raises(errors.SettingError, match=message):
    make()
