"""Reports on a sweep, also while it runs: a table, a CSV file, the best bindings as a gin file.

report = Report(*study.Study.read(url, "sweep"))
report.print_table()
report.write_csv("out/sweep/trials.csv")
report.write_bindings("out/sweep")           # out/sweep/best.gin
"""

import csv
import io
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trainer import errors
from trainer.cli import formatting
from trainer.config import files
from trainer.io import local_files
from trainer.sweep import constraints, gin_text, optuna_parts
from trainer.sweep import trial as trial_lib

if TYPE_CHECKING:
  from trainer.sweep import settings as settings_lib
  from trainer.sweep import study as study_lib

_ROWS_SHOWN = 20
_STATES = {
  "COMPLETE": "complete",
  "PRUNED": "pruned",
  "FAIL": "failed",
  "RUNNING": "running",
  "WAITING": "waiting",
}


class Report:
  """The state of a sweep when the report was made.

  Args:
    trials: the trials of the sweep.
    definition: the sweep's definition, from the database.
  """

  def __init__(self, trials: "study_lib.Study", definition: Mapping[str, Any]) -> None:
    self.name = trials.name
    self.definition = definition
    self.metrics = definition["metric"]
    self.modes = definition["mode"]
    self.study = trials.optuna_study()
    self.trials = self.study.get_trials(deepcopy=False)

  @property
  def keys(self) -> list[str]:
    """The keys of the bindings that vary."""
    space = self.definition["space"]  # A dict of distributions, or a grid's list of points.
    return (
      list(space)
      if isinstance(space, dict)
      else list(dict.fromkeys(key for point in space for key in point))
    )

  def counts(self) -> dict[str, int]:
    """Returns state → number of trials."""
    states = [self.state(trial) for trial in self.trials]
    return {state: states.count(state) for state in _STATES.values() if state in states}

  def state(self, trial: Any) -> str:
    """Returns "complete", "pruned", "failed", "running" (or interrupted) or "waiting"."""
    return _STATES[trial.state.name]

  def values(self, trial: Any) -> list[Any]:
    """Returns the metrics of a trial.

    For a complete trial these are the last ones; otherwise the newest known ones, or None.
    """
    if trial.values is not None:
      return list(trial.values)
    newest = trial.intermediate_values[trial.last_step] if trial.last_step is not None else None
    return [newest] if len(self.metrics) == 1 else [None] * len(self.metrics)

  def interval(self, trial: Any, metric: str) -> list[float] | None:
    """Returns the 95 % interval of the mean over a trial's seeds; None without an interval."""
    return trial.user_attrs.get(trial_lib.INTERVALS, {}).get(metric)

  def best(self) -> list[Any]:
    """Returns the best complete trials that keep the constraints: one in a list for one metric.

    For several metrics these are the Pareto-optimal trials: no other trial is at least as good in
    all metrics and better in one.
    """
    able = [
      trial
      for trial in self.trials
      if self.state(trial) == "complete" and not optuna_parts.violated(trial)
    ]
    if len(self.metrics) > 1:
      costs = {trial.number: self._costs(trial) for trial in able}
      return [
        trial
        for trial in able
        if not any(_dominates(cost, costs[trial.number]) for cost in costs.values())
      ]
    return [trial for trial in self.ranked() if trial in able][:1]

  def _costs(self, trial):
    """Returns the metrics of a trial, signed so that less is better."""
    signs = [-1 if mode == "max" else 1 for mode in self.modes]
    return [sign * value for sign, value in zip(signs, trial.values, strict=True)]

  def ranked(self) -> list[Any]:
    """Returns the trials with a value of the first metric.

    Complete trials come first, then trials that keep the constraints, then better trials.
    """
    sign = -1 if self.modes[0] == "max" else 1
    # A NaN is not equal to itself. NaN has no place in an order.
    known = [
      trial
      for trial in self.trials
      if self.values(trial)[0] is not None and self.values(trial)[0] == self.values(trial)[0]
    ]
    return sorted(
      known,
      key=lambda trial: (
        self.state(trial) != "complete",
        bool(optuna_parts.violated(trial)),
        sign * self.values(trial)[0],
        trial.number,
      ),
    )

  def texts(self, trial: Any) -> dict[str, str]:
    """Returns key → gin text of the bindings that the sweep chose for a trial."""
    return dict(binding.split(" = ", 1) for binding in trial.user_attrs.get("bindings", []))

  def rows(self, trials: Iterable[Any]) -> tuple[list[str], list[list[Any]]]:
    """Returns the header and the rows of a table of trials."""
    bounds = ["breaks"] if self._constraints else []
    header = ["trial", "state", *self.columns, *bounds, "steps", "seconds", *self.keys, "error"]
    rows = []
    for trial in trials:
      texts = self.texts(trial)
      attributes = trial.user_attrs
      steps = attributes.get("steps", trial.last_step)
      error = (
        attributes.get("error", "").strip().splitlines() if self.state(trial) == "failed" else []
      )
      said = f"{error[0].split('. Its last')[0]}: {error[-1]}" if len(error) > 1 else "".join(error)
      rows.append(
        [
          trial.number,
          self.state(trial),
          *self._cells(trial),
          *(", ".join(optuna_parts.violated(trial)) for _ in bounds),
          "" if steps is None else steps,
          attributes.get("seconds", ""),
          *(texts.get(key, "") for key in self.keys),
          said,
        ]
      )
    return header, rows

  def table(self, trials: Iterable[Any]) -> tuple[list[str], list[list[str]], list[int]]:
    """Returns short titles, rows of brief cells, and the indices of the columns with numbers."""
    header, rows = self.rows(trials)
    numbers = ("trial", *self.columns, "steps", "seconds")
    right = [index for index, name in enumerate(header) if name in numbers]
    header[-1 - len(self.keys) : -1] = formatting.short_names(self.keys)
    return header, [list(map(_brief, row)) for row in rows], right

  @property
  def columns(self) -> list[str]:
    """The titles of the columns of metrics: over several seeds, each with its interval's ends.

    Metrics that constraints alone name come last, without an interval.
    """
    ends = ("", " low", " high") if self.definition.get("seeds") else ("",)
    return [f"{metric}{end}" for metric in self.metrics for end in ends] + self._constrained

  @property
  def _constraints(self):
    return list(map(constraints.parse, self.definition.get("constraints", [])))

  @property
  def _constrained(self):
    """The metrics that constraints alone name."""
    named = dict.fromkeys(each.metric for each in self._constraints)
    return [metric for metric in named if metric not in self.metrics]

  def _cells(self, trial):
    """Returns the cells of a trial for `columns`."""
    cells = []
    for metric, value in zip(self.metrics, self.values(trial), strict=True):
      cells.append("" if value is None else value)
      if self.definition.get("seeds"):
        cells += self.interval(trial, metric) or ["", ""]
    values = trial.user_attrs.get(optuna_parts.CONSTRAINED, {})
    return cells + [values.get(metric, "") for metric in self._constrained]

  def print_table(self) -> None:
    """Prints the best trials and the last failed trials."""
    shown = self.ranked()[:_ROWS_SHOWN]
    failed = [trial for trial in self.trials if self.state(trial) == "failed"][-3:]
    numbers = {trial.number for trial in shown}
    header, rows, right = self.table(
      [*shown, *(trial for trial in failed if trial.number not in numbers)]
    )
    if not rows:
      print(f"{self.name}: no trial has a value yet.")
      return
    print(f"{self.name}: {', '.join(f'{count} {state}' for state, count in self.counts().items())}")
    print(formatting.table(header, rows, right))

  def write_csv(self, path: str) -> None:
    """Writes all trials to a CSV file; OutputError if it cannot."""
    header, rows = self.rows(self.trials)
    written = io.StringIO()
    csv.writer(written).writerows([header, *rows])
    local_files.write(path, written.getvalue(), "--sweep_dir")

  def write_bindings(self, folder: str) -> list[str]:
    """Writes the bindings of the best trials as gin files.

    Args:
      folder: gets best.gin, or for several metrics a best_<number>.gin for each best trial.

    Returns:
      The paths of the files; [] if no trial is complete.

    Raises:
      OutputError: it cannot write a file.
    """
    best = self.best()
    several = len(self.metrics) > 1
    paths = [
      os.path.join(folder, f"best_{trial.number}.gin" if several else "best.gin") for trial in best
    ]
    for path, trial in zip(paths, best, strict=True):
      local_files.write(path, self.whole_gin(trial, folder, path), "--sweep_dir")
    return paths

  def whole_gin(self, trial: Any, sweep_dir: str, path: str) -> str:
    """Returns the text of a gin file that repeats a trial by itself, without another gin file.

    The text is the configuration that the trial wrote when it began. The folder of a trial on
    another machine may be missing: then the text includes the files of the sweep.

    Args:
      trial: the trial.
      sweep_dir: the sweep's folder.
      path: the later file of the text, for the command in it.
    """
    try:
      parsed = _text(self.folder(sweep_dir, trial), "config.gin")
    except FileNotFoundError:
      return self.gin(trial)
    seed = next(iter(self.definition.get("seeds", [])), self.definition.get("seed"))
    # The import was a flag of the sweep. Under gin's dynamic registration a name needs an import.
    if seed is not None and "__gin__" not in parsed:
      parsed += f"\nRunConfig.tf_random_seed = {seed}\n"
    heading = f"# {self._title(trial)} Run it again:\n#   {self.command(trial, sweep_dir, path)}\n"
    return heading + parsed

  def command(self, trial: Any, sweep_dir: str, path: str) -> str:
    """Returns the shell command that repeats a trial by its gin file, with its other flags.

    Args:
      trial: the trial of the file.
      sweep_dir: the sweep's folder.
      path: the file, see `write_bindings`. The model_dir is beside it.
    """
    try:
      command = _text(self.folder(sweep_dir, trial), "command.txt")
      words = shlex.split(command)[3:]  # without "python -m trainer.main"
    except FileNotFoundError:
      words = []
    except ValueError as error:
      raise errors.OutputError(
        f"command.txt of trial {trial.number} is no command ({error}): remove it (--sweep_dir)."
      ) from error
    named = ("--gin_file=", "--gin_bindings=", "--model_dir=")
    flags = [f"--gin_file={path}", f"--model_dir={path.removesuffix('.gin')}"]
    return trial_lib.command([*flags, *(word for word in words if not word.startswith(named))])

  def folders(self, sweep_dir: str, trial: Any) -> list[str]:
    """Returns the existing folders of a trial's runs: one, or one for each seed."""
    seeds = self.definition.get("seeds") or [None]
    named = [trial_lib.folder(sweep_dir, trial.number, seed) for seed in seeds]
    return [folder for folder in named if os.path.isdir(folder)] or named[:1]

  def folder(self, sweep_dir: str, trial: Any) -> str:
    """Returns the folder of a trial's run; with several seeds, the folder of the first."""
    return self.folders(sweep_dir, trial)[0]

  def _title(self, trial):
    values = ", ".join(
      f"{name} = {value:.6g}" + (" ({:.6g} to {:.6g} over the seeds)".format(*ends) if ends else "")
      for name, value in zip(self.metrics, self.values(trial), strict=True)
      for ends in [self.interval(trial, name)]
      if value is not None
    )
    return f"Trial {trial.number} of the sweep {self.name}: {values or self.state(trial)}."

  def gin(self, trial: Any) -> str:
    """Returns the bindings of a trial and of all trials, as gin text that includes files."""
    flags = [
      f"--{name}={self.definition[name]}"
      for name in ("precision", "seed")
      if self.definition.get(name) not in (None, "float32")
    ]
    note = f" Its flags were {' '.join(flags)}." if flags else ""
    includes = [f"include {gin_text.text(_findable(path))}" for path in self.definition["gin_file"]]
    bindings = [
      *self.definition["gin_bindings"],
      *self.definition["bindings"],
      *trial.user_attrs.get("bindings", []),
    ]
    return "\n".join([f"# {self._title(trial)}{note}", *includes, "", *bindings]) + "\n"


def print_trials(
  settings: "settings_lib.Settings", command: Callable[[int, list[str]], str], count: int
) -> None:
  """Prints the bindings and commands of trials without running them.

  Args:
    settings: of the sweep.
    command: called with a trial's number and own bindings; returns the command that runs it.
    count: number of trials.
  """
  study = optuna_parts.library().create_study(directions=settings.directions)
  for number in range(count):
    study.sampler = settings.make_sampler(number)
    own = settings.choose(study.ask())
    print(f"trial {number}")
    for binding in own:
      print(f"  {binding}")
    print(f"  {command(number, own)}")
  if settings.sampler != "random":
    print(f"{settings.sampler} learns from results: these are its trials before any result.")


def _dominates(one: list[float], other: list[float]) -> bool:
  """Whether the costs of one trial are nowhere more than another's, and somewhere less."""
  return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def _brief(value: Any) -> str:
  """Returns a cell of the table; numbers with a decimal point or an exponent get five digits."""
  try:
    number = isinstance(value, float) or ("." in str(value) or "e" in str(value))
    return f"{float(value):.5g}" if number else str(value)
  except ValueError:
    return str(value)


def _text(folder, name):
  """Returns the text of a file of a trial; raises FileNotFoundError without the file."""
  path = os.path.join(folder, name)
  try:
    with open(path, encoding="utf-8") as file:
      return file.read()
  except FileNotFoundError:
    raise
  except (OSError, UnicodeDecodeError) as error:
    raise errors.OutputError(f"Cannot read {path}: {error} (--sweep_dir).") from error


def _findable(path):
  """Returns a gin file's path in a form that works from any working directory."""
  return path if "://" in path or (files.SHIPPED / path).is_file() else os.path.abspath(path)
