"""EvalSpecs of one run have their own names."""

import pytest

from trainer import EvalSpec, errors
from trainer.evaluation import eval_spec


def spec(name=None):
  return EvalSpec(lambda params: None, name=name)


def test_specs_with_different_names_are_accepted():
  eval_spec.check([spec(), spec("a"), spec("b")])


@pytest.mark.parametrize(
  ("specs", "message"),
  [
    ([spec("a"), spec(), spec("a")], "2 EvalSpecs have the name 'a'; give each its own"),
    ([spec(), EvalSpec], r"EvalSpec'> is no EvalSpec; in gin, run.eval_specs is .*@test/EvalSpec"),
  ],
)
def test_specs_that_do_not_fit_together_are_refused(specs, message):
  with pytest.raises(errors.SettingError, match=message):
    eval_spec.check(specs)
