"""Reports on trials that never ran."""

import optuna

from trainer.sweep import report


class Trials:
  """Takes the place of study.Study: what a report needs of one."""

  name = "s"

  def __init__(self, modes):
    directions = ["maximize" if mode == "max" else "minimize" for mode in modes]
    self._study = optuna.create_study(directions=directions)

  def optuna_study(self):
    return self._study

  def add(self, values, bindings=None, state="complete", params=None, attributes=None):
    """Adds a trial: values are its metrics, bindings key → gin text, params name → number,
    attributes what else is noted of it.
    """
    last = {} if state == "complete" or values is None else {1: values[0]}
    params = params or {}
    self._study.add_trial(
      optuna.trial.create_trial(
        state=getattr(optuna.trial.TrialState, state.upper()),
        values=values if state == "complete" else None,
        params=params,
        distributions={name: optuna.distributions.FloatDistribution(0, 1) for name in params},
        user_attrs={
          "bindings": [f"{key} = {text}" for key, text in (bindings or {}).items()],
          **(attributes or {}),
        },
        intermediate_values=last,
      )
    )


def of_values(*values, metrics=("accuracy",), modes=("max",), space=None, bindings=None):
  """The report on complete trials with these metrics and bindings."""
  trials = Trials(modes)
  for number, each in enumerate(values):
    each = each if isinstance(each, tuple) else (each,)
    trials.add(each, bindings[number] if bindings else {"a.b": repr(each[0])})
  return of(trials, metrics, modes, space)


def of(trials, metrics=("accuracy",), modes=("max",), space=None, more=None):
  """The report on Trials whose sweep varies the keys of a space, by default a.b."""
  definition = {
    "metric": list(metrics),
    "mode": list(modes),
    "space": space or {"a.b": {"kind": "Uniform"}},
    "gin_file": ["gin_configs/digits.gin"],
    "gin_bindings": [],
    "bindings": [],
    **(more or {}),
  }
  return report.Report(trials, definition)
