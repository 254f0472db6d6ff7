"""Optuna's samplers and pruners by their names, and what may be said of them in a sweep file."""

import re
import sys

import optuna
import pytest

from trainer import errors
from trainer.cli import installation
from trainer.sweep import optuna_parts


def chosen(name="random", options=None, seed=0, number=0, fixed=None):
  """What a sampler chooses for the first trial of a study."""
  sampler = optuna_parts.sampler(name, options or {}, seed, number, fixed)
  trial = optuna.create_study(sampler=sampler).ask()
  return trial.suggest_float("x", 0.0, 1.0), trial.suggest_categorical("k", ["a", "b"])


@pytest.mark.parametrize("name", optuna_parts.SAMPLERS)
def test_each_name_is_a_sampler_of_optuna(name):
  assert type(optuna_parts.sampler(name, {}, 0, 0)).__name__ == optuna_parts.SAMPLERS[name]
  assert 0 <= chosen(name)[0] <= 1


@pytest.mark.parametrize("name", optuna_parts.PRUNERS)
def test_each_name_is_a_pruner_of_optuna(name):
  assert type(optuna_parts.pruner(name, {})).__name__ == optuna_parts.PRUNERS[name]


@pytest.mark.parametrize("name", ["random", "tpe", "cmaes", "nsgaii"])
def test_a_trial_of_the_same_number_and_seed_chooses_the_same(name):
  assert chosen(name, seed=3, number=4) == chosen(name, seed=3, number=4)


@pytest.mark.parametrize("changed", [{"seed": 4}, {"number": 5}])
def test_another_seed_or_trial_chooses_something_else(changed):
  assert chosen(**{"seed": 3, "number": 4, **changed}) != chosen(seed=3, number=4)


def test_seed_and_number_do_not_run_into_each_other():
  assert chosen(seed=1, number=23) != chosen(seed=12, number=3)


def test_what_is_fixed_is_not_sampled():
  found = {chosen("tpe", number=number, fixed={"k": "b"}) for number in range(5)}
  assert {k for _, k in found} == {"b"}
  assert len({x for x, _ in found}) == 5


def test_options_reach_the_pruner():
  def is_pruned(warm_up):
    pruner = optuna_parts.pruner("median", {"n_startup_trials": 1, "n_warmup_steps": warm_up})
    study = optuna.create_study(pruner=pruner)
    for value in (0.1, 0.9):
      trial = study.ask()
      trial.report(value, 1)
      if value < 0.5:
        study.tell(trial, value)
    return trial.should_prune()

  assert (is_pruned(0), is_pruned(5)) == (True, False)


@pytest.mark.parametrize(
  "make, message",
  [
    (
      lambda: optuna_parts.sampler("tpe", ["multivariate"], 0, 0),
      "sweep.sampler_options must be a dict of Optuna's arguments; got",
    ),
    (
      lambda: optuna_parts.sampler("random", {"seed": 3}, 0, 0),
      "sweep.sampler_options has 'seed'; RandomSampler takes none. Its seed is made of sweep.seed",
    ),
    (
      lambda: optuna_parts.pruner("none", {"seed": 3}),
      "sweep.pruner_options has 'seed'; NopPruner takes none.$",
    ),
    (
      lambda: optuna_parts.pruner("median", {"startup": 3}),
      "sweep.pruner_options has 'startup'; MedianPruner takes n_startup_trials, ",
    ),
    (
      lambda: optuna_parts.pruner("asha", {"reduction_factor": 0}),
      "sweep.pruner_options: .*reduction_factor",
    ),
  ],
)
def test_options_that_cannot_be(make, message):
  with pytest.raises(errors.SettingError, match=message):
    make()


@pytest.mark.parametrize("package, name", [("optuna", "tpe"), ("cmaes", "cmaes")])
def test_a_package_that_is_missing_is_told(package, name, monkeypatch):
  monkeypatch.setitem(sys.modules, package, None)
  with pytest.raises(
    errors.SettingError, match=f"(?i)need.*{package}.*{re.escape(installation.command('sweep'))}"
  ):
    optuna_parts.sampler(name, {}, 0, 0)
