"""A loss that is no number is said with the step that it first was at and the checkpoint to go back to."""

import math

import pytest

from trainer import errors, loop
from trainer.hooks import non_finite


def result(loss, step):
  return loop.LoopResult(10, 10, 1.0, loss, step, 0.0, {}, False)


def test_a_finite_loss_is_nothing_to_say():
  assert non_finite.check(result(0.5, -1), None) is None


@pytest.mark.parametrize("loss, word", [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "infinite")])
def test_the_step_and_the_last_good_checkpoint(loss, word):
  with pytest.raises(errors.NonFiniteError, match=f"became {word} at step 7. The last good checkpoint is /m/model.ckpt-5") as raised:
    non_finite.check(result(loss, 7), lambda: "/m/model.ckpt-5")
  assert isinstance(raised.value, ArithmeticError)


def test_no_checkpoint():
  with pytest.raises(errors.NonFiniteError, match="There is no checkpoint yet"):
    non_finite.check(result(math.nan, 1), lambda: None)
