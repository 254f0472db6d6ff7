import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.preflight import search

LIMIT = 1000


def run(first, needs, limit=LIMIT, max_compiles=12):
  compiled = []

  def compile_at(batch):
    assert batch not in compiled
    assert batch > 0
    compiled.append(batch)
    return needs(batch) <= limit, needs(batch)

  found = search.largest_batch(compile_at, first, needs(first), limit, max_compiles)
  assert len(compiled) <= max_compiles
  return found


@pytest.mark.parametrize("first", [512, 1024, 100_000, 400, 8])
def test_finds_the_last_multiple_of_eight_that_fits(first):
  found = run(first, lambda batch: 100 + 2 * batch)  # fits up to 450
  assert found.largest == 448
  assert found.too_large - found.largest <= 8


def test_recomputing_near_the_limit_is_found():
  # A line that bends: beyond 300 the compiler trades memory for time, so that more fits than the
  # line says.
  found = run(1024, lambda batch: 3 * batch if batch <= 300 else 900 + (batch - 300) // 4)
  assert found.largest == 696


def test_small_batches_are_counted_one_by_one():
  found = run(12, lambda batch: 300 * batch)
  assert (found.largest, found.too_large) == (3, 4)


def test_large_batches_are_found_to_a_64th():
  found = run(1_000_000, lambda batch: batch, limit=300_000)
  assert 300_000 * 63 / 64 <= found.largest <= 300_000
  assert len(found.tried) <= 5


def test_nothing_fits():
  found = run(16, lambda batch: 5000 + batch)
  assert found.largest is None
  assert found.too_large == 1


def test_what_was_found_was_compiled():
  found = run(1024, lambda batch: 100 + 2 * batch)
  assert (found.largest, True) in found.tried
  assert (found.too_large, False) in found.tried


@given(st.integers(1, 5000), st.integers(0, 900), st.floats(0.05, 300))
def test_always_brackets(first, fixed, each):
  def needs(batch):
    return fixed + each * batch

  found = run(first, needs, max_compiles=60)
  if found.largest is not None:
    assert needs(found.largest) <= LIMIT
  if found.too_large is not None:
    assert needs(found.too_large) > LIMIT
    assert found.too_large - (found.largest or 0) <= max(8, found.too_large / 64)
