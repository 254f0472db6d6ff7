"""A run in MLflow: its record, its names and its lines; `mlflow_process` asks MLflow."""

import importlib.util
import os
import posixpath
import re
import shlex
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from trainer import errors
from trainer.cli import installation
from trainer.io import file_locks
from trainer.reporting import environment, trial_file
from trainer.tracking import mlflow_process, trackers
from trainer.tracking import record as record_lib

# MLflow's server refuses longer texts.
_LONGEST_PARAMETER, _LONGEST_TAG, _LONGEST_NAME = 6000, 5000, 250

_OWN_ID, _SWEEP_ID = "octet.id", "octet.sweep"


def require() -> None:
  """Raises SettingError if MLflow is missing; does not import MLflow."""
  if importlib.util.find_spec("mlflow") is None:
    raise errors.SettingError(f"MLflowHook needs MLflow: {installation.command('mlflow')}.")


class MlflowRun:
  """The run of a model_dir; see `trackers.Tracker`.

  Args:
    model_dir: the folder of the run.
    tracking_uri: of the server or store; "" for MLflow's own default.
    experiment: its name; "" for MLflow's own default.
    run_name: the run's name.
    tags: of the run.
  """

  def __init__(
    self,
    model_dir: str,
    tracking_uri: str,
    experiment: str,
    run_name: str,
    tags: Mapping[str, str] | None = None,
  ) -> None:
    self._model_dir = model_dir
    self.uri = tracking_uri
    self.experiment = experiment
    self._run_name = run_name
    self._tags = dict(tags or {})
    self._known_metrics: set[str] = set()  # the metrics that the run had at `open`
    self.run_id = ""
    self._renamed: dict[str, str] = {}  # name of a metric → MLflow's
    self._refused: set[str] = set()
    self.name = f"MLflow at {without_password(tracking_uri) or 'its default address'}"
    self.record = record_lib.Record(record_lib.path(model_dir, "mlflow"))

  def open(self, kinds: Iterable[str]) -> Mapping[str, Iterable[int]]:
    """Makes the run, or finds it again; returns kind → the steps that it has."""
    require()
    known = record_lib.read(self._model_dir, "mlflow")
    if known and self.experiment and known.project != self.experiment:
      logging.info("%s: a new run, of another experiment than %s.", self.name, known.project)
      known = None
    # Before the first question: the server may never answer while this process lives. The record
    # tells trainer.tracking that the run belongs in MLflow.
    self.record = known or self._new_record()
    uri = self._ask("address")
    self.name = f"MLflow at {without_password(uri)}"
    self.record.server = without_password(uri)
    found = self._find() or self._make()
    self.run_id = found["run"]
    self._known_metrics = set(found["metrics"])
    self._ask("set_running", run=self.run_id)
    sent = {kind: self._steps(kind) for kind in kinds}
    where = f"/#/experiments/{found['experiment']}/runs/{self.run_id}"
    logging.info("The run in %s%s", self.name, where if uri.startswith("http") else "")
    return sent

  def send(self, lines: Sequence[Mapping[str, Any]]) -> None:
    """Sends lines of metrics.jsonl; a metric is "eval_<name>/loss" there."""
    metrics = [
      (self._metric_name(name), value, int(line["time"] * 1000), line["step"])
      for line in lines
      for name, value in trackers.values_of(line).items()
    ]
    for name, reason in self._ask("log", run=self.run_id, metrics=metrics):
      if name not in self._refused:
        logging.warning("MLflow refuses the metric %r, and lacks it: %s.", name, reason)
      self._refused.add(name)

  def set_parameters(self, parameters: Mapping[str, str]) -> None:
    """Sends the parameters and the run's origin: its command and commit.

    MLflow never changes a parameter: a new value becomes a tag.
    """
    known = self._ask("parameters", run=self.run_id)
    cut = {_allowed(name): text[:_LONGEST_PARAMETER] for name, text in parameters.items()}
    changed = {
      f"resumed with {name}"[:_LONGEST_NAME]: text
      for name, text in cut.items()
      if known.get(name, text) != text
    }
    self._ask(
      "log",
      run=self.run_id,
      parameters={name: text for name, text in cut.items() if name not in known},
      tags={**_source(self._model_dir), **changed},
    )

  def add_files(self, files: Mapping[str, str]) -> None:
    """Sends files and folders: "export/model" → path."""
    for name, path in files.items():
      self._ask("add_file", run=self.run_id, path=os.path.abspath(path), name=name)

  def set_results(self, results: Mapping[str, float], trials: int) -> None:
    """Sends the best trial's metrics to the parent of a sweep's runs.

    Args:
      results: name → value.
      trials: the number of trials; the metrics get it as their step.
    """
    line = {"kind": "best", "step": trials, "time": time.time(), **results}
    self.send([line])

  def close(self, status: str) -> None:
    """Notes how the training ended."""
    self._ask("set_ended", run=self.run_id, status=status)

  def _ask(self, method, **arguments):
    return mlflow_process.ask(self.uri, method, **arguments)

  def _new_record(self):
    experiment = self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"
    record = record_lib.Record(
      self.record.path, server=without_password(self.uri), project=experiment
    )
    record.write()
    return record

  def _find(self):
    """Returns the run with the record's ID as a tag; None if there is none."""
    known = self.record
    found = self._ask("find_run", experiment=known.project, tag=_OWN_ID, value=known.id)
    if not found and known.run:
      logging.warning(
        "%s has no run %s (named in %s): a new run begins, with all of metrics.jsonl.",
        self.name,
        known.run,
        known.path,
      )
      self.record = self._new_record()
    return found

  def _make(self):
    trial = trial_file.read(self._model_dir)
    tags = {_OWN_ID: self.record.id, "model_dir": self._model_dir, **self._tags}
    tags |= {"mlflow.parentRunId": self._parent(trial)} if trial else {}
    made = self._ask("make_run", experiment=self.record.project, name=self._run_name, tags=tags)
    self.record.run = made["run"]
    self.record.write()
    return made

  def _parent(self, trial):
    """Returns MLflow's ID of the run of a trial's sweep; makes that run if there is none."""
    os.makedirs(trial.folder, exist_ok=True)
    # Trials start at the same time, and only one may make the parent. Machines without a common
    # folder each make a parent.
    with open(os.path.join(trial.folder, "mlflow.lock"), "a+b", buffering=0) as file:
      file_locks.lock(file)
      parent = MlflowRun(
        trial.folder, self.uri, self.record.project, trial.sweep, {_SWEEP_ID: trial.id}
      )
      parent.open([])
      return parent.run_id

  def _steps(self, kind):
    """Returns the steps of a kind of lines that the server has: each line has a loss."""
    name = self._metric_name(f"{kind}/loss")
    return self._ask("steps", run=self.run_id, metric=name) if name in self._known_metrics else ()

  def _metric_name(self, name):
    if name not in self._renamed:
      self._renamed[name] = _allowed(name)
      if self._renamed[name] != name:
        logging.info("MLflow takes no metric %r: it is %r there.", name, self._renamed[name])
    return self._renamed[name]


def without_password(uri: str) -> str:
  """Returns an address without the user and the password in it."""
  return re.sub(r"//[^/@]*@", "//", uri)


def _allowed(name):
  """Returns a name that MLflow accepts: letters, numbers, "/_-. :", and as a path without "..".

  MLflow's own rule is in its utils/validation.py. A changed name ends with a checksum, so that
  top@5 and top_5 are two curves, the same after a restart.
  """
  plain = posixpath.normpath(re.sub(r"[^/\w.\- :]", "_", name)).lstrip("/.")[:_LONGEST_NAME]
  return name if plain == name else f"{plain[: _LONGEST_NAME - 9]}.{zlib.crc32(name.encode()):08x}"


def _source(model_dir):
  """Returns tags with a run's command and commit, under MLflow's names where they exist."""
  newest = next(iter(environment.read(model_dir)), {})
  command = str(newest.get("command", ""))
  words = shlex.split(command)
  tags = {
    # MLflow shows the part after the last slash, and would cut a whole command there.
    "mlflow.source.name": next((word for word in words[1:] if word != "-m"), ""),
    "mlflow.source.type": "LOCAL",
    "mlflow.source.git.commit": str(newest.get("commit", "")),
    "command": command[:_LONGEST_TAG],
  }
  return {tag: text for tag, text in tags.items() if text}
