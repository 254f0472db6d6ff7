"""A hook that sends a run to MLflow.

    run.train_hooks = [@MLflowHook()]
    MLflowHook.tracking_uri = "http://127.0.0.1:5000"
    MLflowHook.experiment = "digits"

Layout: see `trainer.tracking.record`.
"""

import contextlib
import dataclasses
import importlib.util
import os
import posixpath
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from absl import logging

from trainer import errors
from trainer.cli import installation
from trainer.config import gin_names
from trainer.reporting import environment, trial_file
from trainer.settings import setting_types
from trainer.tracking import hook, run_files
from trainer.tracking import record as record_lib

# MLflow's server refuses longer texts.
_LONGEST_PARAMETER, _LONGEST_TAG, _LONGEST_NAME = 6000, 5000, 250

_OWN_ID = "octet.id"


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(eq=False)
class MLflowHook(hook.TrackingHook):
  """Sends a run to MLflow: parameters, metrics by step, files.

  A training that goes on from a checkpoint goes on in its run. The trials of a sweep have the
  sweep's name as their tag `sweep`.

  Args:
    tracking_uri: of the server or store, such as "http://127.0.0.1:5000" or "sqlite:///runs.db";
      "" for the environment variable MLFLOW_TRACKING_URI, or MLflow's own default. Users and
      passwords belong in MLflow's environment variables.
    experiment: its name; "" for MLFLOW_EXPERIMENT_NAME, or "Default".
    run_name: "" for the name of model_dir.
    tags: of the run, name → text.
    artifacts: kinds of files to send: "config", "report", "export".
    seconds: between two looks at the run's new lines.

  Raises:
    SettingError: MLflow is missing, or a value cannot work.
  """

  tracking_uri: str = ""
  experiment: str = ""
  run_name: str = ""
  tags: Mapping[str, str] | None = None
  artifacts: Sequence[Annotated[str, setting_types.one_of(*run_files.ALL)]] = run_files.ALL
  seconds: setting_types.Positive = 5.0

  def __post_init__(self) -> None:
    if importlib.util.find_spec("mlflow") is None:
      raise errors.SettingError(f"MLflowHook needs MLflow: {installation.command('mlflow')}.")
    self.name = f"MLflow at {without_password(self.tracking_uri) or 'its default address'}"
    self._client: Any = None
    self._model_dir = self._run_id = ""

  def open(self, model_dir: str, kinds: Iterable[str]) -> Mapping[str, Iterable[int]]:
    """Makes the run, or finds it again; returns kind → the steps that it has."""
    self._model_dir = model_dir
    # Before the first request: the server may never answer while this process lives. The record
    # tells trainer.tracking that the run belongs in MLflow.
    self.record = self._record()
    # MLflow would try again for minutes, and the sender tries again by itself. A user's own value
    # stays.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    import mlflow

    uri = self.tracking_uri or mlflow.get_tracking_uri()
    self.name = f"MLflow at {without_password(uri)}"
    self._client = mlflow.MlflowClient(tracking_uri=uri)
    run = self._run()
    self._run_id = run.info.run_id
    self.record.server, self.record.run = without_password(uri), self._run_id
    self.record.write()
    self._client.update_run(self._run_id, status="RUNNING")
    where = f"/#/experiments/{run.info.experiment_id}/runs/{self._run_id}"
    logging.info("The run in %s%s", self.name, where if uri.startswith("http") else "")
    # Each line has a loss.
    names = {kind: _allowed(f"{kind}/loss") for kind in kinds}
    return {
      kind: [point.step for point in self._client.get_metric_history(self._run_id, name)]
      for kind, name in names.items()
      if name in run.data.metrics
    }

  def send(self, lines: Sequence[Mapping[str, Any]]) -> None:
    """Sends lines of metrics.jsonl; a metric is "eval_<name>/loss" there."""
    from mlflow.entities import Metric

    points = [
      Metric(_allowed(name), value, int(line["time"] * 1000), line["step"])
      for line in lines
      for name, value in hook.values_of(line).items()
    ]
    self._client.log_batch(self._run_id, metrics=points)

  def set_parameters(self, parameters: Mapping[str, str]) -> None:
    """Sends the parameters that the run lacks, and its command and commit.

    MLflow never changes a parameter; the file operative_config.gin has the newest values.
    """
    from mlflow.entities import Param, RunTag

    known = self._client.get_run(self._run_id).data.params
    missing = [
      Param(_allowed(name), text[:_LONGEST_PARAMETER])
      for name, text in parameters.items()
      if _allowed(name) not in known
    ]
    newest = next(iter(environment.read(self._model_dir)), {})
    tags = {
      "command": str(newest.get("command", ""))[:_LONGEST_TAG],
      "mlflow.source.git.commit": str(newest.get("commit", "")),
    }
    present = [RunTag(tag, text) for tag, text in tags.items() if text]
    self._client.log_batch(self._run_id, params=missing, tags=present)

  def add_files(self, files: Mapping[str, str]) -> None:
    """Sends files and folders: "export/model" → path."""
    for name, path in files.items():
      if os.path.isdir(path):
        self._client.log_artifacts(self._run_id, path, name)
      else:
        self._client.log_artifact(self._run_id, path, os.path.dirname(name) or None)

  def close(self, status: str) -> None:
    """Notes how the training ended."""
    self._client.set_terminated(self._run_id, status)

  def _record(self):
    """Returns the record of the folder; a new one if there is none, or of another experiment."""
    known = record_lib.read(self._model_dir, "mlflow")
    if known and self.experiment in ("", known.project):
      return known
    record = record_lib.Record(
      record_lib.path(self._model_dir, "mlflow"),
      server=without_password(self.tracking_uri),
      project=self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default",
    )
    record.write()
    return record

  def _run(self):
    """Returns the run with the record's ID as a tag; makes it if there is none."""
    experiment = self._experiment_id()
    same = f"tags.`{_OWN_ID}` = '{self.record.id}'"
    if found := self._client.search_runs([experiment], same):
      return found[0]
    trial = trial_file.read(self._model_dir)
    tags = {_OWN_ID: self.record.id, "model_dir": self._model_dir, **(self.tags or {})}
    tags |= {"sweep": trial.sweep} if trial else {}
    name = self.run_name or run_files.name_of(self._model_dir)
    return self._client.create_run(experiment, tags=tags, run_name=name)

  def _experiment_id(self):
    """Returns the ID of the experiment; makes the experiment if there is none."""
    import mlflow

    if self._client.get_experiment_by_name(self.record.project) is None:
      # Trials start at the same time: another process may make it first.
      with contextlib.suppress(mlflow.MlflowException):
        self._client.create_experiment(self.record.project)
    return self._client.get_experiment_by_name(self.record.project).experiment_id


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
