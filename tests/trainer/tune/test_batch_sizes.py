"""The search for the largest batch, and a process that measures one."""

import pytest

from trainer import errors
from trainer.compare import results
from trainer.tune import batch_sizes, memory, worker

LIMIT = 2**34


def machine(limit, status=results.OUT_OF_MEMORY):
  def measure(size):
    if size > limit:
      return batch_sizes.Measured(size, status, "It is too large.")
    return batch_sizes.Measured(size, results.OK, "", size / min(size, 100), min(size, 100))

  return measure


def largest(found):
  return max(each.batch_size for each in found if each.fits)


@pytest.mark.parametrize("limit", [64, 100, 333, 1000, 4095])
def test_the_largest_that_fits_is_found_to_a_sixteenth(limit):
  found = batch_sizes.search(machine(limit), 32, 1, 65_536)
  assert limit / (1 + 1 / 15) <= largest(found) <= limit
  sizes = [each.batch_size for each in found]
  assert len(set(sizes)) == len(sizes) < 16


def test_a_size_that_does_not_fit_at_first_is_halved():
  found = batch_sizes.search(machine(10), 64, 1, 65_536)
  assert largest(found) == 10


def test_sizes_are_multiples_of_the_replicas():
  found = batch_sizes.search(machine(1000), 32, 8, 65_536)
  assert all(each.batch_size % 8 == 0 for each in found)


def test_the_search_ends_at_the_largest_that_is_asked_for():
  found = batch_sizes.search(machine(10**9), 32, 1, 200)
  assert [each.batch_size for each in found] == [32, 64, 128]


@pytest.mark.parametrize("status", [results.OUT_OF_TIME, results.FAILED])
def test_what_is_no_matter_of_memory_ends_the_search(status):
  found = batch_sizes.search(machine(100, status), 32, 1, 65_536)
  assert [each.batch_size for each in found] == [32, 64, 128]
  assert largest(found) == 64


def test_a_first_size_that_fails_says_why():
  with pytest.raises(errors.SettingError, match=r"With 32 examples: It is too large\."):
    batch_sizes.search(machine(0, results.FAILED), 32, 1, 65_536)


def test_nothing_fits():
  with pytest.raises(errors.SettingError, match="No batch size works. With 1 examples"):
    batch_sizes.search(machine(0), 32, 1, 65_536)


REQUEST = {
  "gin_files": ["gin_configs/digits.gin"],
  "bindings": [],
  "modules": ["."],
  "flags": {"device": "cpu"},
}


def test_a_batch_is_timed(monkeypatch):
  monkeypatch.setattr(memory, "end_beyond", lambda limit: None)  # it would watch this process
  monkeypatch.setattr(worker, "_SECONDS", 0.1)
  found = worker.answer({**REQUEST, "batch_size": 64, "limit_bytes": LIMIT})
  assert_timed(batch_sizes.Measured(64, **found))


@pytest.mark.long  # the memory limit below has a process of its own in the gate
def test_a_batch_is_timed_in_a_process_of_its_own():
  assert_timed(batch_sizes.measure(64, REQUEST, LIMIT, 200))


def assert_timed(found):
  assert found.fits, found.problem
  assert found.examples_per_second == pytest.approx(64 / found.step_seconds)
  assert found.memory_bytes > 2**27


def test_a_batch_beyond_the_memory_limit_does_not_fit():
  found = batch_sizes.measure(64, REQUEST, 2**27, 200)
  assert found.status == results.OUT_OF_MEMORY
  assert not found.fits
