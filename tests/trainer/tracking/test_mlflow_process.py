"""The process that calls MLflow: what its parent hears of it, by a stand-in for the package."""

import os
import signal
import sys

import pytest

from trainer.tracking import mlflow_process, trackers

# The package's names that `mlflow_client.Client` calls for these questions.
STAND_IN = """
import os, signal
from mlflow.exceptions import MlflowException

class MlflowClient:
  def __init__(self, tracking_uri):
    self.uri = tracking_uri

  def get_metric_history(self, run, metric):
    if metric == "refused":
      raise MlflowException("no such name.\\nMore.", "INVALID_PARAMETER_VALUE")
    if metric == "broken":
      raise RuntimeError("no memory")
    if metric == "killed":
      os.kill(os.getpid(), signal.SIGKILL)
    return [type("Point", (), {"step": os.getpid()})]

def get_tracking_uri():
  return os.environ.get("MLFLOW_TRACKING_URI", "default")
"""
EXCEPTIONS = """
class MlflowException(Exception):
  def __init__(self, message, error_code):
    super().__init__(message)
    self.message, self.error_code = message, error_code
"""


@pytest.fixture(autouse=True)
def stand_in(tmp_path, monkeypatch):
  folder = tmp_path / "packages" / "mlflow"
  folder.mkdir(parents=True)
  (folder / "__init__.py").write_text(STAND_IN)
  (folder / "exceptions.py").write_text(EXCEPTIONS)
  monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder.parent), *sys.path[1:]]))
  monkeypatch.setattr(mlflow_process, "_process", None)
  yield
  mlflow_process._process.end()


def ask(metric="loss"):
  [pid] = mlflow_process.ask("", "steps", run="a", metric=metric)
  return pid


def test_one_process_beside_this_one_answers():
  assert ask() == ask() == mlflow_process._process.pid != os.getpid()
  assert "mlflow" not in sys.modules or not hasattr(sys.modules["mlflow"], "STAND_IN")
  assert os.getpriority(os.PRIO_PROCESS, ask()) > os.getpriority(os.PRIO_PROCESS, 0)


def test_ctrl_c_and_sigterm_are_for_the_training():
  """A terminal, and a machine that is taken away, signal both."""
  pid = ask()
  os.kill(pid, signal.SIGINT)
  os.kill(pid, signal.SIGTERM)
  assert ask() == pid


def test_what_mlflow_raises():
  with pytest.raises(trackers.RefusedError, match="^no such name$"):
    ask("refused")
  with pytest.raises(trackers.UnreachableError, match="^RuntimeError: no memory$"):
    ask("broken")


def test_a_process_that_dies_is_replaced():
  pid = ask()
  with pytest.raises(trackers.UnreachableError, match="process that calls MLflow died of SIG"):
    ask("killed")
  assert ask() != pid


def test_a_setting_of_mlflow_that_changes_begins_a_process(monkeypatch):
  pid = ask()
  assert mlflow_process.ask("", "address") == "default"
  monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host")
  assert mlflow_process.ask("", "address") == "http://host"
  assert ask() != pid
