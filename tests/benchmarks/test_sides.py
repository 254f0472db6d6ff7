"""Sides take turns in processes of their own, are timed in their turns alone, and say what went
wrong.
"""

import os
import signal

import pytest

from benchmarks import sides


def worker(turns, seconds, log):
  """Works for so many seconds of a clock of its own, which a side's process may replace."""
  now = 100.0  # after a long preparation
  sides.time.perf_counter = lambda: now

  def rest():
    nonlocal now
    now += 10.0

  while turns.take(rest):
    with open(log, "a") as file:
      file.write(f"{seconds} {os.getpid()}\n")
    now += seconds


def failing(turns):
  turns.take()
  raise ValueError("no such network")


def eater(turns):
  kept = []
  while turns.take():
    kept.append(bytearray(20 * 2**20))


def test_sides_take_turns_and_are_timed_in_them_alone(tmp_path):
  log = tmp_path / "log"
  slices = sides.alternate(
    {
      "octet": sides.Side(worker, {"seconds": 0.5, "log": log}),
      "other": sides.Side(worker, {"seconds": 1.0, "log": log}),
    },
    rounds=3,
    warm=1,
  )
  turns = [line.split() for line in log.read_text().splitlines()]
  assert [seconds for seconds, _ in turns] == ["1.0", "0.5", "0.5", "1.0"] * 2
  assert len({process for _, process in turns}) == 2
  assert [slices[name].seconds for name in ("octet", "other")] == [[0.5] * 3, [1.0] * 3]


def test_a_ratio_compares_the_slices_of_one_round():
  slices = {"octet": sides.Slices([1.0, 2.0], []), "other": sides.Slices([4.0, 6.0], [])}
  assert sides.ratios(slices, "other") == (4.0, 3.0)


def dying(turns, rounds):
  for _ in range(rounds):
    turns.take()
  os.kill(os.getpid(), signal.SIGABRT)  # as a library may, without a word to Python


@pytest.mark.parametrize(
  ("side", "why"),
  [
    (sides.Side(failing), "ValueError: no such network"),
    (sides.Side(dying, {"rounds": 0}), "its process died of SIGABRT"),
    (sides.Side(dying, {"rounds": 3}), "its process died of SIGABRT"),
  ],
)
def test_a_side_that_fails_says_why_and_the_others_go_on(side, why, tmp_path, capfd):
  good = sides.Side(worker, {"seconds": 1.0, "log": tmp_path / "log"})
  slices = sides.alternate({"octet": good, "bad": side, "other": good}, rounds=3, warm=1)
  assert [len(slices[name].seconds) for name in ("octet", "other")] == [3, 3]
  assert slices["bad"].failed == why
  assert sides.ratios(slices, "bad") == ()
  assert sides.note(slices, 1, "bad") == f"bad: {why}"
  assert len(sides.ratios(slices, "other")) == 3
  assert why in capfd.readouterr().err


def test_memory_is_of_the_side_and_seen_to_grow():
  slices = sides.alternate({"octet": sides.Side(eater)}, rounds=3, warm=1)
  first, _, last = slices["octet"].resident
  assert 35 * 2**20 < last - first < 60 * 2**20
  assert slices["octet"].peak >= last
