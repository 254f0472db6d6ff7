"""Sums since the last report."""

import pytest

from trainer.loop import outer_loop
from trainer.reporting import totals


def result(step, steps, loss, seconds=1.0, input_seconds=0.0, **scalars):
  return outer_loop.LoopResult(step, steps, seconds, loss, -1, input_seconds, scalars, False)


def test_the_loss_is_the_mean_over_the_steps_not_over_the_loops():
  sums = totals.Totals(batch_size=8)
  sums.add(result(1, 1, 10.0))
  sums.add(result(4, 3, 2.0))
  assert sums.take()["loss"] == pytest.approx(4.0)


def test_rates():
  sums = totals.Totals(batch_size=8)
  sums.add(result(4, 4, 1.0, seconds=1.5, input_seconds=0.5))
  sums.add(result(8, 4, 1.0, seconds=0.5))
  report = sums.take()
  assert (
    report["steps_per_second"],
    report["examples_per_second"],
    report["input_wait"],
  ) == pytest.approx((4.0, 32.0, 0.25))


def test_a_clock_that_is_set_forward_is_no_wait_of_days():
  sums = totals.Totals(batch_size=8)
  sums.add(result(4, 4, 1.0, seconds=2.0, input_seconds=30 * 86400.0))
  assert sums.take()["input_wait"] == 1.0


def test_scalars_are_the_newest():
  sums = totals.Totals(batch_size=8)
  sums.add(result(1, 1, 1.0, learning_rate=0.1))
  sums.add(result(2, 1, 1.0, learning_rate=0.2))
  assert sums.take()["learning_rate"] == 0.2


def test_a_report_starts_anew():
  sums = totals.Totals(batch_size=8)
  sums.add(result(1, 1, 100.0, seconds=50.0, input_seconds=50.0))
  sums.take()
  sums.add(result(2, 1, 3.0, seconds=0.5))
  assert sums.take() == dict(
    loss=3.0, steps_per_second=2.0, examples_per_second=16.0, input_wait=0.0
  )
