"""The end of a sweep in MLflow: its trials, its parent, and whatever fails."""

import logging

import pytest

from tests.trainer.tracking import fake_mlflow, fake_trials
from trainer.reporting import metrics_file
from trainer.tracking import mlflow_process, mlflow_run, record, run_files, sweep_runs, trackers

FINISHED, FAILED, KILLED = trackers.FINISHED, trackers.FAILED, trackers.KILLED


@pytest.fixture
def server(monkeypatch):
  server = fake_mlflow.Server()
  monkeypatch.setattr(mlflow_process, "ask", server.ask)
  monkeypatch.setattr(mlflow_run, "require", lambda: None)
  monkeypatch.setattr(run_files, "ALL", (run_files.CONFIG,))
  return server


def trial(sweep, number, is_tracked=True, sent=0):
  """The folder of a trial with a line at step 10."""
  folder = fake_trials.add(sweep, number)
  metrics_file.append(str(folder), "train", 10, {"loss": 1.0})
  if is_tracked:
    path = record.path(str(folder), "mlflow")
    record.Record(path, server="http://host", project="digits", sent={"train": sent}).write()
  return str(folder)


def finish(sweep, trials):
  (sweep / "best.gin").write_text("LR = 0.1")
  sweep_runs.finish(str(sweep), {"loss": 0.5}, {"best.gin": str(sweep / "best.gin")}, trials)


def warnings(caplog):
  return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_trials_that_lack_something_are_children_of_the_parent(tmp_path, server, caplog):
  trials = {trial(tmp_path, 0): FINISHED, trial(tmp_path, 1, sent=10): KILLED}
  finish(tmp_path, trials)
  runs = server.named()
  parent = runs.pop("lr")
  assert {name: run.status for name, run in runs.items()} == {
    "trial 0": "FINISHED",
    "trial 1": "KILLED",
  }
  assert {server.runs[run.tags["mlflow.parentRunId"]].name for run in runs.values()} == {"lr"}
  assert (parent.status, parent.points, parent.files) == (
    "FINISHED",
    [("best/loss", 2)],
    ["best.gin"],
  )
  assert warnings(caplog) == []


def test_a_finished_trial_with_all_lines_is_not_sent_again(tmp_path, server):
  finish(tmp_path, {trial(tmp_path, 0, sent=10): FINISHED})
  assert [run.points for run in server.runs.values()] == [[("best/loss", 1)]]


def test_a_trial_that_failed_before_its_hook_is_left_out(tmp_path, server, caplog):
  finish(tmp_path, {trial(tmp_path, 0, is_tracked=False): FAILED, trial(tmp_path, 1): FINISHED})
  assert set(server.named()) == {"lr", "trial 1"}
  assert warnings(caplog) == []


def test_a_sweep_without_the_hook_asks_nothing(tmp_path, server):
  finish(tmp_path, {trial(tmp_path, 0, is_tracked=False): FINISHED})
  assert server.asked == []


def test_a_server_that_is_down_is_a_warning(tmp_path, server, caplog):
  folder = trial(tmp_path, 0)
  server.is_down = True
  finish(tmp_path, {folder: FINISHED})
  [text] = warnings(caplog)
  assert text.startswith("MLflow at http://host does not have the sweep's results: connection")


def test_a_damaged_record_is_a_warning(tmp_path, server, caplog):
  folder = trial(tmp_path, 0)
  (tmp_path / "trials" / "0" / "mlflow.json").write_text("{")
  finish(tmp_path, {folder: FINISHED, trial(tmp_path, 1): FINISHED})
  [text] = warnings(caplog)
  assert "mlflow.json" in text
