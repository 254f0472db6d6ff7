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
  if name == "gp":
    pytest.importorskip("torch")
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
      "sweep.sampler_options has 'seed'; RandomSampler takes none. Octet derives its seed from sweep.seed",
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


def test_without_torch_the_sampler_gp_says_what_to_install(monkeypatch):
  monkeypatch.setattr(
    optuna_parts.importlib.util, "find_spec", lambda name: None if name == "torch" else object()
  )
  with pytest.raises(errors.SettingError, match="'gp' needs the package torch: pip install torch"):
    optuna_parts.sampler("gp", {}, 0, 0)


@pytest.mark.parametrize("name", ["tpe", pytest.param("gp", marks=pytest.mark.long)])
def test_samplers_look_for_trials_that_keep_the_constraints(name):
  """The loss falls as x grows, and x may be 0.25 at most."""
  if name == "gp":
    pytest.importorskip("torch")
  study = optuna.create_study()
  for number in range(48):
    study.sampler = optuna_parts.sampler(
      name, {"n_startup_trials": 8}, 0, number, is_constrained=True
    )
    trial = study.ask()
    x = trial.suggest_float("x", 0.0, 1.0)
    optuna_parts.set_constraints(trial, {"x <= 0.25": x - 0.25})
    study.tell(trial, -x)
  late = [trial.params["x"] for trial in study.trials[32:]]
  # "gp" ends within 1e-4 of the bound, on either side of it.
  assert sum(x <= 0.2501 for x in late) >= 8
