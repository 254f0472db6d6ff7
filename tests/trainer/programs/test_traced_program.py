"""The longest program whose results fit."""

import pytest

from trainer.programs import core_results, plan, traced_program
from trainer.settings.kinds import Kind


@pytest.mark.parametrize(
  ("fitting", "lengths"),
  [
    ([], [64]),
    ([10], [64, 10]),
    ([10, 4], [64, 10, 4]),  # larger results in another trace
    ([1], [64, 1]),
    ([0], [64, 1]),
  ],
)
def test_too_large_results_give_shorter_programs(fitting, lengths):
  tried, left = [], list(fitting)

  def trace(one):
    tried.append((one.length, one.is_stacked))
    if left:
      raise core_results.TooLarge(left.pop(0))
    return one

  found = traced_program.trace_longest(plan.Plan(Kind.EVAL, None, 8, 64, True), trace)
  assert tried == [(length, length > 1) for length in lengths]
  assert (found.length, found.kind, found.replicas) == (lengths[-1], Kind.EVAL, 8)
