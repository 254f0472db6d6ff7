"""A few of many examples, while they pass by."""

import collections
import math

import numpy as np
import pytest

from trainer.outputs import samples


def taken(sample, pairs):
  assert list(sample.watch(iter(pairs))) == list(pairs)
  return sample.taken()


def test_each_example_has_the_same_chance():
  seen = collections.Counter(
    number for seed in range(2000) for number, _ in taken(samples.spread(4, seed), range(20))
  )
  # Each is taken in a fifth of the runs: 400 times, with a standard deviation of 18.
  assert set(seen) == set(range(20))
  assert all(310 < count < 490 for count in seen.values())


def test_the_same_seed_takes_the_same_in_the_order_of_the_set():
  first, again, other = (taken(samples.spread(5, seed), range(100)) for seed in (3, 3, 4))
  assert first == again != other
  assert first == sorted(first)
  assert all(number == value for number, value in first)
  assert len(first) == 5


@pytest.mark.parametrize("count, shown", [(2, [0, 5]), (3, [0, 3, 6]), (10, list(range(10)))])
def test_fewer_of_them_are_from_all_parts(count, shown):
  sample = samples.spread(12, 0)
  taken(sample, range(10))
  assert [number for number, _ in sample.fewer(count)] == shown


def test_the_worst_come_first():
  badness = [0.1, math.nan, 0.7, 0.2, 0.7, 0.9]
  sample = samples.worst(4, lambda pair: pair)
  for _ in sample.watch(badness):
    pass
  assert [number for number, _ in sample.taken()] == [1, 5, 2, 4]
  assert [number for number, _ in sample.fewer(2)] == [1, 5]


@pytest.mark.parametrize(
  "sample", [samples.spread(2, 0), samples.worst(2, lambda pair: float(pair["x"][0]))]
)
def test_what_is_taken_does_not_hold_its_batch(sample):
  batch = np.arange(12.0).reshape([6, 2])
  for _ in sample.watch({"x": row, "text": b"a"} for row in batch):
    pass
  pairs = [pair for _, pair in sample.taken()]
  assert len(pairs) == 2
  assert all(pair["x"].base is None and pair["text"] == b"a" for pair in pairs)


def test_none_are_taken():
  assert taken(samples.spread(0, 0), range(3)) == []
  assert taken(samples.worst(0, float), range(3)) == []
