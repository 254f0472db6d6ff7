"""Bounds of a sweep: which texts are bounds, and by how much a value breaks one."""

import pytest

from trainer import errors
from trainer.sweep import constraints


def test_a_violation_is_the_distance_beyond_the_bound():
  at_least = constraints.parse(" recall >= 0.75 ")
  assert (at_least.text, at_least.metric, at_least.bound) == ("recall >= 0.75", "recall", 0.75)
  assert [at_least.violation(value) for value in (0.5, 0.75, 1.0)] == [0.25, 0.0, -0.25]
  at_most = constraints.parse("hard/loss<=0.5")
  assert (at_most.metric, at_most.violation(0.75)) == ("hard/loss", 0.25)


@pytest.mark.parametrize("text", ["recall", "recall > 0.9", "recall >= high", "a >= inf", 0.9])
def test_other_texts_are_refused_with_the_form(text):
  with pytest.raises(errors.SettingError, match="expected texts such as 'accuracy >= 0.9' or"):
    constraints.parse(text)
