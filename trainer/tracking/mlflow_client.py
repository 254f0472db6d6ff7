"""MLflow's client, reduced to the calls that a run needs, with values that JSON can hold.

    client = Client("http://127.0.0.1:5000")
    found = client.make_run("digits", "digits", {"model_dir": "out/digits"})
    client.log(found["run"], metrics=[["train/loss", 0.5, 1795252745000, 100]])

Only this module imports mlflow, and `mlflow_process` runs it. The package mlflow-skinny is enough.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainer import errors
from trainer.tracking import trackers

# MLflow's server refuses larger requests.
_MOST_METRICS, _MOST_PARAMETERS = 1000, 100

_NO_ACCESS = ("CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED", "UNAUTHENTICATED")  # status 401, 403
_HOW_TO_GET_ACCESS = (
  "access is refused: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
  "MLFLOW_TRACKING_TOKEN"
)


class Client:
  """Asks a server or store of MLflow.

  Each method raises UnreachableError if the server does not answer or refuses access, and
  RefusedError if the server refuses the values.

  Args:
    uri: of the server or store; "" for MLflow's own default.

  Attributes:
    uri: of the server or store.
  """

  def __init__(self, uri: str) -> None:
    # MLflow prints the run's address each time that a run ends.
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    # MLflow would try again for minutes, and the sender tries again by itself. A user's own value
    # stays.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    import mlflow

    self.uri = uri or mlflow.get_tracking_uri()
    with _asking():
      self._client = mlflow.MlflowClient(tracking_uri=self.uri)

  def address(self) -> str:
    """Returns the address of the server or store."""
    return self.uri

  def find_run(self, experiment: str, tag: str, value: str) -> dict[str, Any] | None:
    """Finds the run of an experiment by a tag; returns the same as `make_run`, or None."""
    with _asking():
      found = self._client.search_runs(
        [self._experiment_id(experiment)], f"tags.`{tag}` = '{value}'"
      )
    return _described(found[0]) if found else None

  def make_run(self, experiment: str, name: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """Makes a run, and its experiment if it does not exist.

    Returns:
      "run" and "experiment": their IDs; "metrics": the names of the run's metrics.
    """
    with _asking():
      return _described(
        self._client.create_run(self._experiment_id(experiment), tags=dict(tags), run_name=name)
      )

  def set_running(self, run: str) -> None:
    """Marks a run as going on, whatever its status was."""
    with _asking():
      self._client.update_run(run, status="RUNNING")

  def set_ended(self, run: str, status: str) -> None:
    """Marks a run as ended now, with a status of `trackers`."""
    with _asking():
      self._client.set_terminated(run, status)

  def steps(self, run: str, metric: str) -> list[int]:
    """Returns the steps of a metric's points."""
    with _asking():
      return [each.step for each in self._client.get_metric_history(run, metric)]

  def parameters(self, run: str) -> dict[str, str]:
    """Returns a run's parameters."""
    with _asking():
      return dict(self._client.get_run(run).data.params)

  def log(
    self,
    run: str,
    metrics: Sequence[Sequence[Any]] = (),
    parameters: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
  ) -> list[tuple[str, str]]:
    """Gives a run metrics, parameters and tags.

    Args:
      run: its ID.
      metrics: points, each with a name, a value, the time in milliseconds and the step.
      parameters: name → value.
      tags: name → value.

    Returns:
      The names of the metrics that the server refuses, each with the reason.
    """
    from mlflow.entities import Metric, Param, RunTag

    for part in _parts([Param(*each) for each in (parameters or {}).items()], _MOST_PARAMETERS):
      with _asking():
        self._client.log_batch(run, params=part, synchronous=True)
    for part in _parts([RunTag(*each) for each in (tags or {}).items()], _MOST_PARAMETERS):
      with _asking():
        self._client.log_batch(run, tags=part, synchronous=True)
    refused = []
    for part in _parts([Metric(*each) for each in metrics], _MOST_METRICS):
      refused += self._log_metrics(run, part)
    return refused

  def _log_metrics(self, run, metrics):
    """Sends metrics; returns the refused ones. After a refusal it sends them one by one."""
    try:
      with _asking():
        self._client.log_batch(run, metrics=metrics, synchronous=True)
    except trackers.RefusedError as error:
      if len(metrics) == 1:
        return [(metrics[0].key, str(error))]
      return [refused for metric in metrics for refused in self._log_metrics(run, [metric])]
    return []

  def add_file(self, run: str, path: str, name: str) -> None:
    """Uploads a file or folder of this machine; name has its path in the run, such as "a/b.txt"."""
    with _asking():
      if os.path.isdir(path):
        self._client.log_artifacts(run, path, name)
      else:
        self._client.log_artifact(run, path, os.path.dirname(name) or None)

  def _experiment_id(self, name):
    """Returns the ID of an experiment; makes the experiment if there is none."""
    from mlflow.exceptions import MlflowException

    if (found := self._client.get_experiment_by_name(name)) is not None:
      return found.experiment_id
    try:
      return self._client.create_experiment(name)
    except MlflowException:  # Another process has just made the experiment.
      if (found := self._client.get_experiment_by_name(name)) is None:
        raise
      return found.experiment_id


@contextlib.contextmanager
def _asking() -> Iterator[None]:
  from mlflow.exceptions import MlflowException

  try:
    yield
  except (MlflowException, OSError) as error:
    code = getattr(error, "error_code", "")
    if code == "INVALID_PARAMETER_VALUE":
      raise trackers.RefusedError(errors.first_line(error)) from error
    advice = f"{_HOW_TO_GET_ACCESS} ({errors.first_line(error)})"
    message = advice if code in _NO_ACCESS else errors.first_line(error)
    raise trackers.UnreachableError(message) from error


def _described(run):
  return {
    "run": run.info.run_id,
    "experiment": run.info.experiment_id,
    "metrics": list(run.data.metrics),
  }


def _parts(items, size):
  return [items[start : start + size] for start in range(0, len(items), size)]
