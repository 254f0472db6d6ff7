"""What MLflow's client is asked: in parts, again without refused values, with clear errors."""

import sys
import types

import pytest

from trainer.tracking import mlflow_client, trackers


class MlflowError(Exception):
  def __init__(self, message, error_code):
    super().__init__(message)
    self.error_code = error_code


class Server:
  """In place of MlflowClient: keeps the batches, and refuses points with the name "bad"."""

  def __init__(self, tracking_uri=""):
    self.batches = []
    self.error = None

  def log_batch(self, run, synchronous, metrics=(), params=(), tags=()):
    if self.error:
      raise self.error
    if any(metric.key == "bad" for metric in metrics):
      raise MlflowError("bad name\nmore", "INVALID_PARAMETER_VALUE")
    self.batches.append([each.key for each in (*metrics, *params, *tags)])


@pytest.fixture
def client(monkeypatch):
  """A Client of a Server. The package mlflow need not be there."""

  def item(key, *values):
    return types.SimpleNamespace(key=key, values=values)

  modules = {
    "mlflow": types.SimpleNamespace(MlflowClient=Server, get_tracking_uri=lambda: "default"),
    "mlflow.exceptions": types.SimpleNamespace(MlflowException=MlflowError),
    "mlflow.entities": types.SimpleNamespace(Metric=item, Param=item, RunTag=item),
  }
  for name, module in modules.items():
    monkeypatch.setitem(sys.modules, name, module)
  for name in ("SUPPRESS_PRINTING_URL_TO_STDOUT", "HTTP_REQUEST_MAX_RETRIES"):
    monkeypatch.setenv(f"MLFLOW_{name}", "1")
  monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
  return mlflow_client.Client("")


def test_values_are_sent_in_parts_that_the_server_takes(client):
  assert client.address() == "default"
  points = [[f"m{number}", 0.5, 1000, number] for number in range(1001)]
  assert client.log("run", points, {f"p{number}": "1" for number in range(101)}, {"t": "1"}) == []
  assert [len(batch) for batch in client._client.batches] == [100, 1, 1, 1000, 1]


def test_a_refused_point_costs_no_other_and_is_named(client):
  points = [["a", 1.0, 1, 1], ["bad", 1.0, 1, 1], ["b", 1.0, 1, 1]]
  assert client.log("run", points) == [("bad", "bad name")]
  assert client._client.batches == [["a"], ["b"]]


@pytest.mark.parametrize(
  ("error", "message"),
  [
    (MlflowError("who?", "PERMISSION_DENIED"), r"^access is refused: set MLFLOW_.* \(who\?\)$"),
    (MlflowError("later\nmore", "TEMPORARILY_UNAVAILABLE"), "^later$"),
    (ConnectionRefusedError("no server"), "^no server$"),
  ],
)
def test_a_server_that_does_not_answer_is_unreachable(client, error, message):
  client._client.error = error
  with pytest.raises(trackers.UnreachableError, match=message):
    client.log("run", [["a", 1.0, 1, 1]])
