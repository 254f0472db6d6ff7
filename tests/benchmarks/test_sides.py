"""Sides take turns in processes of their own, are timed in their turns alone, and say what went
wrong.
"""

import os
import signal
import time

import pytest

from benchmarks import sides


def sleeper(turns, seconds, log):
  time.sleep(0.3)  # preparing, which is not timed
  while turns.take():
    with open(log, "a") as file:
      file.write(f"{seconds} {os.getpid()}\n")
    time.sleep(seconds)


def failing(turns):
  turns.take()
  raise ValueError("no such network")


def eater(turns):
  kept = []
  while turns.take():
    kept.append(bytearray(20 * 2**20))


def test_order_alternates_by_round_and_ratios_are_of_one_round(tmp_path):
  log = tmp_path / "log"
  slices = sides.alternate(
    {
      "octet": sides.Side(sleeper, {"seconds": 0.05, "log": log}),
      "other": sides.Side(sleeper, {"seconds": 0.1, "log": log}),
    },
    rounds=3,
    warm=1,
  )
  turns = [line.split() for line in log.read_text().splitlines()]
  assert [seconds for seconds, _ in turns] == [
    "0.1",
    "0.05",
    "0.05",
    "0.1",
    "0.1",
    "0.05",
    "0.05",
    "0.1",
  ]
  assert len({process for _, process in turns}) == 2
  assert [len(slices[name].seconds) for name in slices] == [3, 3]
  assert all(0.05 <= seconds < 0.25 for seconds in slices["octet"].seconds)
  for ratio, mine, theirs in zip(
    sides.ratios(slices, "other"), slices["octet"].seconds, slices["other"].seconds, strict=True
  ):
    assert ratio == theirs / mine


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
  good = sides.Side(sleeper, {"seconds": 0, "log": tmp_path / "log"})
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
