"""Advice: each sentence where its reason is, and nowhere else."""

import pytest

from tests.trainer.compare import fake_rows
from trainer.compare import advice, prices, summary

PRICES = [prices.Price("P100", 1.44, "USD", "", "s"), prices.Price("TPU", 7.2, "USD", "", "s")]


def say(*rows, deadline=None):
  return advice.sentences(summary.Summary(rows, PRICES, deadline_seconds=deadline))


def test_nothing_is_said_without_a_reason():
  assert say(fake_rows.row(), fake_rows.row(0.2, "gpu"), fake_rows.failed()) == []


def test_a_machine_that_had_other_work():
  machine = {**fake_rows.LAPTOP, "cpu_cores": 2}
  busy = [fake_rows.row(machine=machine, load=load) for load in (3.0, 9.0, 12.4)]
  (said,) = say(*busy)
  assert (
    "while Octet measured 2 of the figures, other programs ran there (up to 6.2 processes a core"
    in said
  )


def test_nothing_is_said_of_virtual_cores():
  small, large = (
    fake_rows.row(seconds, "cpu:8", batch_size=size, input_wait=0.9, start_seconds=99.0)
    for seconds, size in ((0.5, 10), (0.5, 20))
  )
  assert say(small, large) == []


def test_input_bound():
  (said,) = say(fake_rows.row(input_wait=0.4))
  assert "The input limits" in said
  assert "40%" in said


@pytest.mark.parametrize(("seconds", "count"), [(0.6, 1), (0.9, 0)])
def test_a_batch_that_is_too_small(seconds, count):
  said = say(fake_rows.row(0.5), fake_rows.row(seconds, batch_size=20))
  assert len(said) == count
  assert all("batch of 10 is too small" in each and "1.7 times" in each for each in said)


def test_padding_waste_is_what_the_compiler_says():
  (said,) = say(fake_rows.estimate(0.1, 0.2, advice=["axis 3 is padded"]))
  assert said.endswith("by the compiler: axis 3 is padded")


def test_the_cheapest_for_a_deadline():
  rows = fake_rows.row(0.25, "gpu"), fake_rows.row(0.1, "tpu")
  (said,) = say(*rows, deadline=3.0)
  assert "within 0.05 minutes, tpu (TPU v3-8) is the cheapest, at 0.004 USD a run" in said
  (said,) = say(*rows, deadline=1.0)
  assert "no measured device finishes in" in said
  (said,) = say(fake_rows.row(0.1), deadline=3.0)
  assert "have no price" in said
  assert say(fake_rows.row(0.1, mode="predict", examples=4), deadline=3.0) == []


def test_a_training_shorter_than_its_compilation():
  (said,) = say(fake_rows.row(0.1, start_seconds=9.0))
  assert "tracing and compiling take 9 s, longer than the 2 s" in said
