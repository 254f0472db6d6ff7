"""One trial: its folder, its command, its evaluations and its result.

Example:
    run = Run(trial, settings, sweep_dir, common_arguments)
    run.prepare()                       # makes the folder, with command.txt
    is_pruned = run.follow()            # from time to time: reads new evaluations
    run.outcome(exit_code)              # at its end: ("complete", [0.98]), ("fail", None), ...
"""

import os
import shlex
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from trainer import errors
from trainer.cli import processes
from trainer.io import local_files
from trainer.loop import preemption
from trainer.reporting import metrics_file

if TYPE_CHECKING:
  from trainer.sweep import settings as settings_lib

_LAST_LINES = 20


def folder(sweep_dir: str, number: int) -> str:
  """Returns the model_dir of a trial."""
  return os.path.join(sweep_dir, "trials", str(number))


def arguments(
  common: Sequence[str], sweep_dir: str, number: int, bindings: Sequence[str]
) -> list[str]:
  """Returns the flags of trainer.main for a trial.

  Args:
    common: flags of all trials.
    sweep_dir: the sweep's folder.
    number: of the trial.
    bindings: gin bindings of the trial.
  """
  return [*common, f"--model_dir={folder(sweep_dir, number)}", *as_flags(bindings)]


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
    trial: the optuna.Trial. Its parameters are chosen here, if they were not before.
    settings: of the sweep.
    sweep_dir: the sweep's folder.
    common: flags of trainer.main for all trials.

  Attributes:
    trial: the optuna.Trial.
    number: of the trial.
    name: the name by which the trial server knows it.
    settings: of the sweep.
    model_dir: folder of the trial.
    own_bindings: the gin bindings that the sweep chose for it.
    arguments: flags of trainer.main.
    pruned: whether the pruner has decided to end it early.
  """

  def __init__(
    self, trial: Any, settings: "settings_lib.Settings", sweep_dir: str, common: Sequence[str]
  ) -> None:
    self.trial = trial
    self.number = trial.number
    self.name = f"trial {trial.number}"
    self.settings = settings
    self.model_dir = folder(sweep_dir, trial.number)
    self.own_bindings = settings.choose(trial)
    bindings = [*settings.bindings, *self.own_bindings]
    self.arguments = arguments(common, sweep_dir, trial.number, bindings)
    self.pruned = "pruned_at" in trial.user_attrs
    self._size = -1  # of the metrics file at the last look
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
      SettingError: the folder belongs to a trial of another sweep, whose database is gone.
      OutputError: the folder cannot be written.
    """
    known = self.trial.user_attrs.get("bindings")
    if known is None and os.path.exists(os.path.join(self.model_dir, "command.txt")):
      raise errors.SettingError(
        f"{self.model_dir} has a trial of a sweep that the database does not know: move the "
        "folder away, or give another --sweep_dir."
      )
    if known is None:
      self.trial.set_user_attr("bindings", self.own_bindings)
    local_files.make_folder(self.model_dir, "--sweep_dir")
    path = os.path.join(self.model_dir, "command.txt")
    local_files.write(path, self.command + "\n", "--sweep_dir")

  def follow(self) -> bool:
    """Reports new evaluations to the pruner; returns whether the trial must end early.

    Raises:
      MetricMissingError: the evaluations do not report the metric of the sweep.
    """
    path = os.path.join(self.model_dir, metrics_file.NAME)
    size = os.path.getsize(path) if os.path.exists(path) else -1
    if size == self._size:  # nothing was appended
      return False
    self._size = size
    lines = metrics_file.read(self.model_dir)
    self._check_metrics(lines, ended=False)
    if len(self.settings.metrics) > 1 or self.pruned:
      return False
    kind, metric = _kind_and_name(self.settings.metrics[0], lines)
    # The database knows which evaluations were reported, also by an earlier process.
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
        self.trial.set_user_attr("pruned_at", line["step"])
        self.pruned = True
        return True
    return False

  def outcome(self, code: int) -> tuple[str, list[float] | None]:
    """Determines the result of the trial when its process has ended.

    Args:
      code: exit code of the process; -n if signal n ended it.

    Returns:
      ("complete", metrics), ("pruned", None), ("fail", None) or ("interrupted", None).

    Raises:
      MetricMissingError: the trial is complete, and no evaluation reports the metric of the sweep.
    """
    lines = metrics_file.read(self.model_dir)
    self.trial.set_user_attr("steps", max((line["step"] for line in lines), default=0))
    # A trial may be interrupted and continued: the seconds of all its processes are added.
    seconds = self.trial.user_attrs.get("seconds", 0.0) + time.monotonic() - self._begin_time
    self.trial.set_user_attr("seconds", round(seconds, 1))
    if self.pruned and code in (preemption.EXIT_CODE, -signal.SIGTERM):
      return "pruned", None
    if code == preemption.EXIT_CODE:
      return "interrupted", None
    if code:
      how = processes.how_it_ended(code)
      self.trial.set_user_attr("error", f"It {how}. Its last lines:\n{self._last_lines()}")
      return "fail", None
    self._check_metrics(lines, ended=True)
    values = [_last(metric, lines) for metric in self.settings.metrics]
    if None in values:
      self.trial.set_user_attr(
        "error",
        f"{self.settings.metrics[values.index(None)]} is NaN or infinite at the last evaluation.",
      )
      return "fail", None
    return "complete", values

  def _check_metrics(self, lines, ended):
    evaluations = [line for line in lines if line["kind"] not in ("train", "start")]
    for metric in self.settings.metrics:
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
        f"sweep.metric = {metric!r}: {self.name} was evaluated and reports no such metric. It "
        f"reports: {', '.join(found) or 'nothing'}. Mend the "
        "sweep file and give another --sweep_dir."
      )

  def _last_lines(self):
    try:
      with open(self.log, encoding="utf-8", errors="replace") as file:
        return "\n".join(file.read()[-20000:].splitlines()[-_LAST_LINES:])
    except FileNotFoundError:
      return "(it said nothing)"


def _kind_and_name(metric, lines):
  """Returns the kind of the lines that have a metric, and its name in these lines.

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
