"""What varies: distributions, conditions, all combinations."""

import optuna
import pytest

from trainer import errors
from trainer.config.text import Verbatim
from trainer.sweep import space


def suggested(varied, count=30):
  """What so many trials get; a trial that is asked again must get the same."""
  study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
  found = []
  for _ in range(count):
    trial = study.ask()
    found.append(varied.suggest(trial))
    assert varied.suggest(trial) == found[-1]
  return found


def test_each_distribution_gives_gin_of_its_kind():
  found = suggested(
    space.Space(
      {
        "a.u": space.Uniform(-1, 1),
        "a.l": space.LogUniform(1e-4, 1),
        "a.i": space.IntUniform(2, 9, step=3),
        "a.q": space.Quantized(0.1, 0.75, 0.1),
        "a.c": space.Choice(["it's", Verbatim("@f")]),
        "BATCH": [32, 64],
      }
    )
  )
  assert all(-1 <= float(trial["a.u"]) <= 1 for trial in found)
  assert all(1e-4 <= float(trial["a.l"]) <= 1 for trial in found)
  assert min(float(trial["a.l"]) for trial in found) < 1e-2
  assert {trial["a.i"] for trial in found} == {"2", "5", "8"}
  assert {trial["a.q"] for trial in found} == {"0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"}
  assert {trial["a.c"] for trial in found} == {'"it\'s"', "@f"}
  assert {trial["BATCH"] for trial in found} == {"32", "64"}


CONDITIONAL = {
  "a.momentum": space.Choice([0.5, 0.9], when={"OPTIMIZER": [Verbatim("@sgd"), Verbatim("@rms")]}),
  "OPTIMIZER": space.Choice([Verbatim("@sgd"), Verbatim("@adam"), Verbatim("@rms")]),
  "a.nesterov": space.Choice([True, False], when={"a.momentum": 0.9}),
}


def test_a_parameter_counts_where_its_condition_holds():
  varied = space.Space(CONDITIONAL)
  assert varied.keys == ["OPTIMIZER", "a.momentum", "a.nesterov"]
  found = suggested(varied)
  assert any(trial["OPTIMIZER"] == "@rms" for trial in found)
  for trial in found:
    assert ("a.momentum" in trial) == (trial["OPTIMIZER"] != "@adam")
    assert ("a.nesterov" in trial) == (trial.get("a.momentum") == "0.9")


@pytest.mark.parametrize(
  ("entries", "message"),
  [
    ({}, "at least one parameter"),
    ([], "at least one parameter"),
    ({"a.b": 3}, "must be @choice"),
    ({"a.b": []}, "at least one value"),
    ({"a b": [1]}, "not the name of a gin parameter"),
    ({"a.b": space.Uniform(0, 1, when={"c.d": 1})}, "names 'c.d'; expected another parameter"),
    (
      {"a.b": space.Uniform(0, 1, when={"a.c": 3}), "a.c": [1, 2]},
      "to be 3, and it never is; its values are 1, 2",
    ),
    ({"a.b": space.Uniform(0, 1, when=3)}, "must be a dict"),
    (
      {"a.b": space.Choice([1], when={"a.c": 1}), "a.c": space.Choice([1], when={"a.b": 1})},
      "in a circle",
    ),
  ],
)
def test_spaces_that_cannot_be(entries, message):
  with pytest.raises(errors.SettingError, match=message):
    space.Space(entries)


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: space.LogUniform(0, 1), "log_uniform.low must be greater than 0"),
    (lambda: space.Uniform(2, 1), "low must not be greater than high"),
    (lambda: space.Uniform("1", 2), "uniform.low is .1.; expected a number"),
    (lambda: space.IntUniform(1, 2.5), "int_uniform.high is 2.5; expected an int"),
    (lambda: space.IntUniform(1, 8, step=2, log=True), "step"),
    (lambda: space.Quantized(0, 1, 0), "quantized.step"),
    (lambda: space.Choice([1, 1]), "more than once"),
  ],
)
def test_distributions_that_cannot_be(make, message):
  with pytest.raises(errors.SettingError, match=message):
    make()
