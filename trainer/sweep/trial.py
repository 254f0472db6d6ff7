"""A trial: its folder, its command, its evaluations and its result.

Example:
    run = Run(trial, settings, sweep_dir, common_arguments)
    run.prepare()                       # makes the folder, with command.txt
    is_pruned = run.follow()            # from time to time: reads new evaluations
    run.outcome(exit_code)              # at its end: ("complete", [0.98]), ("fail", None), ...
"""

import math
import os
import shlex
import signal
import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from trainer import errors
from trainer.cli import processes
from trainer.io import local_files
from trainer.loop import preemption
from trainer.reporting import metrics_file, trial_file
from trainer.sweep import optuna_parts

if TYPE_CHECKING:
  from trainer.sweep import settings as settings_lib

_LAST_LINES = 20

# Keys of a trial's user attributes: seed → metrics; metric → [low, high] of the mean over seeds.
_BY_SEED, INTERVALS = "by_seed", "intervals"
# The key of a study's user attributes with the sweep's name among all sweeps.
SWEEP_ID = "octet_id"


def folder(sweep_dir: str, number: int, seed: int | None = None) -> str:
  """Returns the model_dir of a trial; of one of its runs, if it has several seeds."""
  return os.path.join(sweep_dir, "trials", str(number), *([] if seed is None else [f"seed_{seed}"]))


def arguments(
  common: Sequence[str],
  sweep_dir: str,
  number: int,
  bindings: Sequence[str],
  seed: int | None = None,
) -> list[str]:
  """Returns the flags of trainer.main for a trial.

  Args:
    common: flags of all trials.
    sweep_dir: the sweep's folder.
    number: of the trial.
    bindings: gin bindings of the trial.
    seed: of this run of the trial, if it has several.
  """
  own = [f"--model_dir={folder(sweep_dir, number, seed)}"]
  own += [] if seed is None else [f"--seed={seed}"]
  return [*common, *own, *as_flags(bindings)]


def as_flags(bindings: Sequence[str]) -> list[str]:
  """Returns gin bindings as flags of trainer.main."""
  return [f"--gin_bindings={binding}" for binding in bindings]


def command(flags: Sequence[str]) -> str:
  """Returns the shell command that runs trainer.main with these flags."""
  return shlex.join(["python", "-m", "trainer.main", *flags])


class MetricMissingError(errors.SettingError):
  """No evaluation reports the metric of the sweep."""


class Run:
  """A trial that this process works on.

  Args:
    trial: the optuna.Trial. The constructor chooses its parameters, if it has none.
    settings: of the sweep.
    sweep_dir: the sweep's folder.
    common: flags of trainer.main for all trials.

  Attributes:
    trial: the optuna.Trial.
    number: of the trial.
    name: the trial's name in the trial server.
    settings: of the sweep.
    seed: of this run, if the trial has several; otherwise None.
    model_dir: folder of the run.
    own_bindings: the gin bindings that the sweep chose for it.
    arguments: flags of trainer.main.
    pruned: whether the pruner has decided to end it early.
  """

  def __init__(
    self, trial: Any, settings: "settings_lib.Settings", sweep_dir: str, common: Sequence[str]
  ) -> None:
    self.trial = trial
    self.number = trial.number
    self.settings = settings
    left = [seed for seed in settings.seeds if str(seed) not in trial.user_attrs.get(_BY_SEED, {})]
    # If all runs have finished, the former process died before it recorded the result.
    self.seed = next(iter([*left, *settings.seeds[-1:]]), None)
    self.name = f"trial {trial.number}" + ("" if self.seed is None else f", seed {self.seed}")
    self.model_dir = folder(sweep_dir, trial.number, self.seed)
    self._sweep_dir = sweep_dir
    self.own_bindings = settings.choose(trial)
    bindings = [*settings.bindings, *self.own_bindings]
    self.arguments = arguments(common, sweep_dir, trial.number, bindings, self.seed)
    self.pruned = "pruned_at" in trial.user_attrs
    self._size = -1  # Of the metrics file at the last look.
    self._begin_time = time.monotonic()

  @property
  def command(self) -> str:
    """The command that runs the trial by hand."""
    return command(self.arguments)

  @property
  def log(self) -> str:
    """The file with the trial's output."""
    return os.path.join(self.model_dir, "log.txt")

  @property
  def lock(self) -> str:
    """The file that the trial's process keeps locked."""
    return os.path.join(self.model_dir, "process.lock")

  def prepare(self) -> None:
    """Makes the trial's folder and command.txt.

    Raises:
      SettingError: the folder belongs to a trial of another sweep without a database.
      OutputError: it cannot write the folder.
    """
    known = self.trial.user_attrs.get("bindings")
    if known is None and os.path.exists(os.path.join(self.model_dir, "command.txt")):
      raise errors.SettingError(
        f"{self.model_dir} has a trial of a sweep that the database does not know: move the folder "
        "away, or give another --sweep_dir."
      )
    if known is None:
      self.trial.set_user_attr("bindings", self.own_bindings)
    local_files.make_folder(self.model_dir, "--sweep_dir")
    self._describe().write(self.model_dir)
    path = os.path.join(self.model_dir, "command.txt")
    local_files.write(path, self.command + "\n", "--sweep_dir")

  def _describe(self):
    """Returns the run's own record of its trial."""
    return trial_file.Trial(
      sweep=self.trial.study.study_name,
      id=self.trial.study.user_attrs.get(SWEEP_ID, self._sweep_dir),
      folder=self._sweep_dir,
      number=self.number,
      seed=self.seed,
      bindings=dict(binding.split(" = ", 1) for binding in self.own_bindings),
      metrics=list(self.settings.metrics),
      modes=list(self.settings.modes),
    )

  def follow(self) -> bool:
    """Reports new evaluations to the pruner; returns whether the trial must end early.

    Of several seeds, the pruner judges the first.

    Raises:
      MetricMissingError: the evaluations do not report the metric of the sweep.
    """
    path = os.path.join(self.model_dir, metrics_file.NAME)
    size = os.path.getsize(path) if os.path.exists(path) else -1
    if size == self._size:  # No new lines.
      return False
    self._size = size  # Before the read: lines that come meanwhile change it again.
    lines = metrics_file.read(self.model_dir)
    self._check_metrics(lines, ended=False)
    if len(self.settings.metrics) > 1 or self.pruned:
      return False
    if self.settings.seeds and self.seed != self.settings.seeds[0]:
      return False
    kind, metric = _kind_and_name(self.settings.metrics[0], lines)
    # The database knows the reported evaluations, including reports of an earlier process.
    known = self.trial.storage.get_trial(self.trial._trial_id).intermediate_values
    for line in lines:
      if line["kind"] != kind or metric not in line or line["step"] in known:
        continue
      value = line[metric]
      self.trial.report(float("nan") if value is None else value, line["step"])
      logging.info(
        "%s: %s %s at step %d",
        self.name,
        self.settings.metrics[0],
        "NaN" if value is None else f"{value:.5g}",
        line["step"],
      )
      if self.trial.should_prune():
        # In the database: if this process dies now, the next one must not resume the trial.
        self.trial.set_user_attr("pruned_at", line["step"])
        self.pruned = True
        return True
    return False

  def outcome(self, code: int) -> tuple[str, list[float] | None]:
    """Determines the result of the trial when its process has ended.

    Args:
      code: exit code of the process; -n if signal n ended it.

    Returns:
      ("complete", metrics), ("pruned", None), ("fail", None) or ("interrupted", None); ("again",
      None) if the trial has further seeds.

    Raises:
      MetricMissingError: the trial is complete, and no evaluation reports the metric of the sweep.
    """
    lines = metrics_file.read(self.model_dir)
    self.trial.set_user_attr("steps", max((line["step"] for line in lines), default=0))
    # A trial may be interrupted and resumed: its time is the sum over its processes.
    seconds = self.trial.user_attrs.get("seconds", 0.0) + time.monotonic() - self._begin_time
    self.trial.set_user_attr("seconds", round(seconds, 1))
    if self.pruned and code in (preemption.EXIT_CODE, -signal.SIGTERM):
      return "pruned", None
    if code == preemption.EXIT_CODE:
      return "interrupted", None
    if code:
      how = processes.how_it_ended(code)
      self.trial.set_user_attr("error", f"The process {how}. Its last lines:\n{self._last_lines()}")
      return "fail", None
    self._check_metrics(lines, ended=True)
    values = {metric: _last(metric, lines) for metric in self.settings.judged}
    for metric, value in values.items():
      if value is None:
        self.trial.set_user_attr("error", f"{metric} is NaN or infinite at the last evaluation.")
        return "fail", None
    return self._judge(values)

  def _judge(self, values):
    """Returns the outcome of a run with known metrics."""
    if self.seed is not None:
      by_seed = {**self.trial.user_attrs.get(_BY_SEED, {}), str(self.seed): values}
      self.trial.set_user_attr(_BY_SEED, by_seed)
      if len(by_seed) < len(self.settings.seeds):
        return "again", None
      found = {metric: [each[metric] for each in by_seed.values()] for metric in values}
      values = {metric: statistics.fmean(each) for metric, each in found.items()}
      intervals = {metric: mean_interval(found[metric]) for metric in self.settings.metrics}
      self.trial.set_user_attr(INTERVALS, intervals)
    if self.settings.constraints:
      constrained = {each.metric: values[each.metric] for each in self.settings.constraints}
      self.trial.set_user_attr(optuna_parts.CONSTRAINED, constrained)
      optuna_parts.set_constraints(
        self.trial,
        {each.text: each.violation(values[each.metric]) for each in self.settings.constraints},
      )
    return "complete", [values[metric] for metric in self.settings.metrics]

  def _check_metrics(self, lines, ended):
    evaluations = [line for line in lines if line["kind"] not in ("train", "start")]
    for metric in self.settings.judged:
      kind, name = _kind_and_name(metric, lines)
      own = [line for line in evaluations if line["kind"] == kind]
      # Evaluations of other names may come first, but not at a second step.
      late = len({line["step"] for line in evaluations}) > 1 or ended
      if any(name in line for line in own) or not (own or late):
        continue
      found = sorted(
        {
          _shown(line["kind"], key)
          for line in evaluations
          for key in line
          if key not in ("step", "time", "kind")
        }
      )
      raise MetricMissingError(
        f"{self._setting(metric)}: the evaluation of {self.name} reports no such metric. It "
        f"reports {', '.join(found) or 'nothing'}. Mend the sweep file and give another "
        "--sweep_dir."
      )

  def _setting(self, metric):
    """Returns the setting that names a metric, for a message."""
    if metric in self.settings.metrics:
      return f"sweep.metric = {metric!r}"
    bound = next(each for each in self.settings.constraints if each.metric == metric)
    return f"sweep.constraints has {bound.text!r}"

  def _last_lines(self):
    try:
      with open(self.log, encoding="utf-8", errors="replace") as file:
        return "\n".join(file.read()[-20000:].splitlines()[-_LAST_LINES:])
    except FileNotFoundError:
      return "(it said nothing)"


def mean_interval(values: Sequence[float]) -> list[float] | None:
  """Returns a 95 % interval of the mean of some runs' values, by Student's t; None of one value."""
  if len(values) < 2:
    return None
  from scipy import stats

  error = statistics.stdev(values) / math.sqrt(len(values))
  half = float(stats.t.ppf(0.975, len(values) - 1)) * error
  mean = statistics.fmean(values)
  return [mean - half, mean + half]


def _kind_and_name(metric, lines):
  """Returns the kind of the lines with a metric, and its name in these lines.

  "accuracy" → ("eval", "accuracy"); "b/accuracy" → ("eval_b", "accuracy").
  """
  # A metric may have a slash in its own name, so the evaluation without a name comes first.
  plain = metrics_file.eval_kind()
  evaluation, _, name = metric.rpartition("/")
  if not evaluation or any(line["kind"] == plain and metric in line for line in lines):
    return plain, metric
  return metrics_file.eval_kind(evaluation), name


def _shown(kind, name):
  return name if kind == metrics_file.eval_kind() else f"{kind.removeprefix('eval_')}/{name}"


def _last(metric, lines):
  kind, name = _kind_and_name(metric, lines)
  return next(line[name] for line in reversed(lines) if line["kind"] == kind and name in line)
