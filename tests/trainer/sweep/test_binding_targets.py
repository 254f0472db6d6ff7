"""Macros that nobody mentions, and scopes that nobody enters, are found before the first trial."""

import pytest

from tests.trainer import configurables
from trainer import errors
from trainer.sweep import binding_targets

EXPERIMENT = f"""
import {configurables.__name__}
run.model_fn = @line.model_fn
run.train_input_fn = @train/points.input_fn
run.eval_input_fn = @whole/test/points.input_fn
by_hand/line.layer.units = 3
line.model_fn.width = %WIDTH
line.model_fn.clip = [{{'deep': %sizes/CLIP}}]
WIDTH = 8
sizes/CLIP = 1
"""


@pytest.fixture
def check(tmp_path):
  """Checks rows of bindings of an experiment."""
  path = tmp_path / "experiment.gin"
  path.write_text(EXPERIMENT)
  return lambda *rows: binding_targets.check([str(path)], rows, ["."])


@pytest.mark.parametrize(
  "bindings",
  [
    pytest.param(["WIDTH = 9"], id="a macro of the files"),
    pytest.param(["sizes/CLIP = 2"], id="a macro in a scope, inside of a value"),
    pytest.param(["run.train_steps = %STEPS", "STEPS = 3"], id="a macro of the row itself"),
    pytest.param(["points.input_fn.split = 'a'"], id="no scope"),
    pytest.param(["train/points.input_fn.split = 'a'"], id="the scope of a reference"),
    pytest.param(["test/points.input_fn.split = 'a'"], id="the inner scope of a reference"),
    pytest.param(["whole/test/points.input_fn.split = 'a'"], id="both scopes of a reference"),
    pytest.param(["by_hand/line.layer.units = 4"], id="a scope in which the files bind"),
    pytest.param(
      ["line.model_fn.optimizer = @fast/Momentum()", "fast/Momentum.rate = 1"],
      id="the scope of a reference of the row itself",
    ),
  ],
)
def test_what_has_an_effect(check, bindings):
  check(bindings)


@pytest.mark.parametrize(
  "bindings, message",
  [
    (["WIDHT = 9"], "no binding uses the macro WIDHT. Did you mean WIDTH"),
    (["CLIP = 2"], "uses the macro CLIP"),
    (["train/WIDTH = 2"], "uses the macro train/WIDTH"),
    (
      ["tarin/points.input_fn.split = 'a'"],
      "^tarin/points.input_fn.split has no effect: no reference in the experiment has the scope "
      "tarin. Did you mean train",
    ),
    (["train/tset/points.input_fn.split = 'a'"], "has the scope tset. Did you mean test"),
  ],
)
def test_what_has_none(check, bindings, message):
  with pytest.raises(errors.SettingError, match=message):
    check(["points.input_fn.training = True"], bindings)


def test_a_mistake_that_gin_itself_finds_is_told_as_ever(check):
  with pytest.raises(errors.SettingError, match=r"points\.input_fn has no parameter splti"):
    check(["points.input_fn.splti = 'a'"])
