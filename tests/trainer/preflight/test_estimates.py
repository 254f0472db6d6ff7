"""Times and costs from the figures of a compiler."""

import pytest

from tests.trainer.preflight.test_report import V2, compiled
from trainer.preflight import estimates, memory, topology


def cost_model(optimal_seconds, hlo=None):
  """The time by the compiler's cost model where the roofline is 1 ms."""
  listing = {} if hlo is None else {"listing": memory.Listing(hlo, "", 0)}
  changed = compiled(optimal_seconds=optimal_seconds, **listing)
  return estimates.step_time(changed, V2).cost_model


def test_the_roofline_is_what_limits():
  time = estimates.step_time(compiled(), V2)
  # A core is half of a chip's 46 TFLOP/s.
  assert (time.bound, time.roofline) == ("compute", pytest.approx(23e9 / 23e12))
  time = estimates.step_time(compiled(bytes_accessed=3.5e9), V2)
  assert (time.bound, time.roofline) == ("memory", pytest.approx(0.01))


def test_each_custom_call_adds_the_second_that_it_counts_less():
  assert cost_model(-0.996) == pytest.approx(0.004)
  two = "\n\nENTRY %m {\n %a = f32[] custom-call()\n %b = f32[] custom-call()\n}"
  assert cost_model(-1.996, two) == pytest.approx(0.004)
  assert cost_model(0.004, "\n\nENTRY %m {\n}") == pytest.approx(0.004)


def test_custom_calls_of_other_computations_do_not_count():
  hlo = "%f {\n %a = f32[] custom-call()\n}\n\nENTRY %m {\n %b = f32[] custom-call()\n}"
  assert cost_model(-0.996, hlo) == pytest.approx(0.004)


@pytest.mark.parametrize(
  "optimal_seconds",
  [
    pytest.param(None, id="no figure"),
    pytest.param(-1.5, id="less than nothing"),
    pytest.param(-0.9999999, id="too coarse"),
    pytest.param(0.1, id="more than a thousand rooflines"),
  ],
)
def test_a_figure_that_makes_no_sense_is_left_out(optimal_seconds):
  assert cost_model(optimal_seconds) is None


@pytest.mark.parametrize(
  "cost_model, low, high", [(1.0, 1.0, 2.0), (3.0, 2.0, 3.0), (None, 2.0, 2.0)]
)
def test_the_range_is_between_both_estimates(cost_model, low, high):
  time = estimates.StepTime(2.0, cost_model, "compute")
  assert (time.low, time.high) == (low, high)


def test_all_reduce_moves_its_bytes_twice_over_chip_links():
  # 4 links of 82 GB/s; all but one of 1,024 chips' parts come and go.
  time = estimates.step_time(compiled(), topology.find("v3-2048"), 328_000_000)
  assert time.all_reduce == pytest.approx(2e-3 * 1023 / 1024)


def test_range_is_from_a_hidden_all_reduce_to_one_that_waits():
  time = estimates.StepTime(0.001, None, "compute", all_reduce=0.0005)
  assert (time.low, time.high) == (0.001, 0.002)
  # An all-reduce that takes longer than the step cannot hide behind it.
  time = estimates.StepTime(0.0001, None, "compute", all_reduce=0.0005)
  assert (time.low, time.high) == (0.0005, pytest.approx(0.0011))
