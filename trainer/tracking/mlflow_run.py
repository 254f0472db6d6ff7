"""A run in MLflow, by MLflow's client, which the package mlflow-skinny has too."""

import contextlib
import importlib.util
import os
import posixpath
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from trainer import errors
from trainer.cli import installation
from trainer.reporting import environment
from trainer.tracking import record as record_lib
from trainer.tracking import trackers

# What a server of MLflow takes at once.
_MOST_METRICS, _MOST_PARAMETERS, _LONGEST_PARAMETER, _LONGEST_NAME = 1000, 100, 6000, 250

_OWN_ID = "octet.id"


def library() -> Any:
  """Imports mlflow and returns the module.

  Raises:
    SettingError: MLflow is not installed.
  """
  require()
  # It prints the run's address each time that a run ends.
  os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
  # MLflow would try again for minutes, and tell each try; the thread that calls it tries again by
  # itself. A value that the user has set stays.
  os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
  os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
  import mlflow

  return mlflow


def require() -> None:
  """Raises SettingError unless MLflow is installed; does not import it."""
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
    parent: returns MLflow's ID of the parent run, or None; called when the run is made.
  """

  def __init__(
    self,
    model_dir: str,
    tracking_uri: str,
    experiment: str,
    run_name: str,
    tags: Mapping[str, str] | None = None,
    parent: Any = None,
  ) -> None:
    self._model_dir = model_dir
    self.uri = tracking_uri
    self.experiment = experiment
    self._run_name = run_name
    self._tags = dict(tags or {})
    self._parent = parent
    self._client: Any = None
    self._run: Any = None
    self._renamed: dict[str, str] = {}  # name of a metric → MLflow's
    self._refused: set[str] = set()
    self.name = f"MLflow at {without_password(tracking_uri) or 'its default address'}"
    self.record = record_lib.Record(record_lib.path(model_dir, "mlflow"))

  def open(self, kinds: Iterable[str]) -> Mapping[str, Iterable[int]]:
    """Makes the run, or finds it again; returns kind → the steps that it has."""
    mlflow = library()
    uri = self.uri or mlflow.get_tracking_uri()
    self.name = f"MLflow at {without_password(uri)}"
    with self._asking():
      self._client = mlflow.MlflowClient(tracking_uri=uri)
      self._run = self._find() or self._make(without_password(uri))
      self._client.update_run(self.run_id, status="RUNNING")
      sent = {kind: self._steps(kind) for kind in kinds}
    where = f"/#/experiments/{self._run.info.experiment_id}/runs/{self.run_id}"
    logging.info("The run in %s%s", self.name, where if uri.startswith("http") else "")
    return sent

  @property
  def run_id(self) -> str:
    """MLflow's ID of the run, which must be open."""
    return self._run.info.run_id

  def send(self, lines: Sequence[Mapping[str, Any]]) -> None:
    """Sends lines of metrics.jsonl; a metric is "eval_<name>/loss" there."""
    from mlflow.entities import Metric

    metrics = [
      Metric(
        self._metric_name(f"{line['kind']}/{name}"),
        float("nan") if value is None else float(value),
        int(line["time"] * 1000),
        line["step"],
      )
      for line in lines
      for name, value in line.items()
      if name not in ("step", "time", "kind")
    ]
    for part in _parts(metrics, _MOST_METRICS):
      try:
        self._send(part)
      except trackers.RefusedError:
        self._send_each(part)

  def _send(self, metrics):
    with self._asking():
      self._client.log_batch(self.run_id, metrics=metrics, synchronous=True)

  def _send_each(self, metrics):
    """Sends those metrics of a batch that MLflow takes."""
    for metric in metrics:
      try:
        self._send([metric])
      except trackers.RefusedError as error:
        if metric.key not in self._refused:
          logging.warning("MLflow refuses the metric %r, and lacks it: %s.", metric.key, error)
        self._refused.add(metric.key)

  def set_parameters(self, parameters: Mapping[str, str]) -> None:
    """Sends parameters, and where the run came from, which is known by then.

    MLflow never changes a parameter: a new value becomes a tag.
    """
    from mlflow.entities import Param, RunTag

    source = [RunTag(name, text) for name, text in _source(self._model_dir).items()]
    with self._asking():
      self._client.log_batch(self.run_id, tags=source, synchronous=True)
    with self._asking():
      known = self._client.get_run(self.run_id).data.params
    cut = {_allowed(name): text[:_LONGEST_PARAMETER] for name, text in parameters.items()}
    new = [Param(name, text) for name, text in cut.items() if name not in known]
    for part in _parts(new, _MOST_PARAMETERS):
      with self._asking():
        self._client.log_batch(self.run_id, params=part, synchronous=True)
    for name, text in cut.items():
      if name in known and known[name] != text:
        with self._asking():
          self._client.set_tag(self.run_id, f"resumed with {name}"[:_LONGEST_NAME], text)

  def add_files(self, files: Mapping[str, str]) -> None:
    """Sends files and folders: "export/model" → path."""
    for name, path in files.items():
      with self._asking():
        if os.path.isdir(path):
          self._client.log_artifacts(self.run_id, path, name)
        else:
          self._client.log_artifact(self.run_id, path, posixpath.dirname(name) or None)

  def set_results(self, results: Mapping[str, float], trials: int) -> None:
    """Sends the best trial's metrics to the parent of a sweep's runs.

    Args:
      results: name → value.
      trials: how many trials there were, which is the step.
    """
    line = {"kind": "best", "step": trials, "time": time.time(), **results}
    self.send([line])

  def close(self, status: str) -> None:
    """Notes how the training ended."""
    with self._asking():
      self._client.set_terminated(self.run_id, status)

  def _find(self):
    """Returns the run of the model_dir's record; None if there is none."""
    known = record_lib.read(self._model_dir, "mlflow")
    if known is None:
      return None
    if self.experiment and known.project != self.experiment:
      logging.info("%s: a new run, of another experiment than %s.", self.name, known.project)
      return None
    self.record = known
    found = self._client.search_runs(
      [self._experiment_id(self.record.project)], f"tags.`{_OWN_ID}` = '{self.record.id}'"
    )
    if not found and self.record.run:
      logging.warning(
        "%s has no run %s (named in %s): a new run begins, with all of metrics.jsonl.",
        self.name,
        self.record.run,
        self.record.path,
      )
    return next(iter(found), None)

  def _make(self, server):
    experiment = self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"
    # The record first: a process that is killed after the next call finds the run by its tag.
    self.record = record_lib.Record(self.record.path, server=server, project=experiment)
    self.record.write()
    parent = self._parent(self) if self._parent else None
    tags = {_OWN_ID: self.record.id, "model_dir": self._model_dir, **self._tags}
    tags |= {"mlflow.parentRunId": parent} if parent else {}
    made = self._client.create_run(
      self._experiment_id(experiment), tags=tags, run_name=self._run_name
    )
    self.record.run = made.info.run_id
    self.record.write()
    return made

  def _experiment_id(self, name):
    """Returns the ID of an experiment, which is made if there is none."""
    from mlflow.exceptions import MlflowException

    if (found := self._client.get_experiment_by_name(name)) is not None:
      return found.experiment_id
    try:
      return self._client.create_experiment(name)
    except MlflowException:  # another process has just made it
      if (found := self._client.get_experiment_by_name(name)) is None:
        raise
      return found.experiment_id

  def _steps(self, kind):
    """Returns the steps of a kind of lines that the server has: each line has a loss."""
    name = self._metric_name(f"{kind}/loss")
    if name not in self._run.data.metrics:
      return ()
    return {each.step for each in self._client.get_metric_history(self.run_id, name)}

  def _metric_name(self, name):
    if name not in self._renamed:
      self._renamed[name] = _allowed(name)
      if self._renamed[name] != name:
        logging.info("MLflow takes no metric %r: it is %r there.", name, self._renamed[name])
    return self._renamed[name]

  @contextlib.contextmanager
  def _asking(self) -> Iterator[None]:
    from mlflow.exceptions import MlflowException

    try:
      yield
    except (MlflowException, OSError) as error:
      is_refused = getattr(error, "error_code", "") == "INVALID_PARAMETER_VALUE"
      kind = trackers.RefusedError if is_refused else trackers.UnreachableError
      raise kind(errors.first_line(error)) from error


def without_password(uri: str) -> str:
  """Returns an address without the user and the password in it."""
  return re.sub(r"//[^/@]*@", "//", uri)


def _allowed(name):
  """A name as MLflow takes it: letters, numbers, "/_-. :", and as a path that is in its plain form.

  MLflow's own rule is in its utils/validation.py.
  """
  plain = posixpath.normpath(re.sub(r"[^/\w.\- :]", "_", name)).lstrip("/.")
  return plain[:_LONGEST_NAME] or "_"


def _parts(items, size):
  return [items[start : start + size] for start in range(0, len(items), size)]


def _source(model_dir):
  """Returns MLflow's tags of where a run came from."""
  newest = next(iter(environment.read(model_dir)), {})
  named = {"mlflow.source.name": "command", "mlflow.source.git.commit": "commit"}
  return {tag: str(newest[key]) for tag, key in named.items() if key in newest}
