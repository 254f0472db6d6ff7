"""The parts of a set that several hosts read."""

import itertools

import pytest

from input_pipelines import hosts
from tests.input_pipelines import tiny_data


@pytest.mark.parametrize(("count", "parts"), [(10, 3), (3, 3), (2, 5), (0, 4), (10**18 + 7, 8)])
def test_parts_are_even_and_complete(count, parts):
  ranges = [hosts.even_range(count, index, parts) for index in range(parts)]
  assert ranges[0][0] == 0
  assert ranges[-1][1] == count
  assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
  sizes = {stop - start for start, stop in ranges}
  assert max(sizes) - min(sizes) <= 1


def test_one_host_reads_all():
  assert hosts.part_of(None) == (0, 1)
  assert hosts.part_of(tiny_data.context(2, 5)) == (2, 5)


@pytest.mark.parametrize(("start", "count", "seen"), [(0, 4, 0), (42, None, 42), (42, 4, 10)])
def test_a_host_has_seen_its_share(start, count, seen):
  context = count and tiny_data.context(0, count)
  assert hosts.examples_seen(start, context) == seen
