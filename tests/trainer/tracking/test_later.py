"""What a run could not send is sent by another process."""

import pytest

from tests.trainer.tracking import fake_mlflow
from trainer import errors
from trainer.reporting import metrics_file
from trainer.tracking import later, mlflow_process, mlflow_run, record, run_files, trackers


@pytest.fixture
def server(monkeypatch):
  server = fake_mlflow.Server()
  monkeypatch.setattr(mlflow_process, "ask", server.ask)
  monkeypatch.setattr(mlflow_run, "require", lambda: None)
  monkeypatch.setattr(run_files, "ALL", (run_files.CONFIG,))  # a report takes a second
  return server


def write(folder, sent, **steps):
  """A run with lines of each kind, of which MLflow has those up to `sent`."""
  for kind, of in steps.items():
    for step in of:
      metrics_file.append(str(folder), kind, step, {"loss": 1.0})
  path = record.path(str(folder), "mlflow")
  record.Record(path, server="http://old", project="digits", sent=sent).write()


def test_lines_parameters_files_and_the_end_arrive(tmp_path, server):
  (tmp_path / "operative_config.gin").write_text("run.train_steps = 20\n")
  write(tmp_path, {}, train=[10, 20], eval=[20])
  assert later.send(str(tmp_path), status=trackers.KILLED) == "MLflow at http://old"
  [run] = server.runs.values()
  assert run.points == [("train/loss", 10), ("train/loss", 20), ("eval/loss", 20)]
  assert (run.parameters, run.status) == ({"run.train_steps": "20"}, "KILLED")
  assert run.files == ["operative_config.gin"]
  assert not later.is_missing_something(str(tmp_path))
  later.send(str(tmp_path))
  assert len(run.points) == 3


def test_an_address_replaces_that_of_the_record(tmp_path, server):
  write(tmp_path, {}, train=[10])
  later.send(str(tmp_path), "http://new")
  assert {uri for uri, _ in server.asked} == {"http://new"}
  assert record.read(str(tmp_path), "mlflow").server == "http://new"


def test_no_server_leaves_the_record_as_it_is(tmp_path, server):
  write(tmp_path, {"train": 5}, train=[10])
  server.is_down = True
  with pytest.raises(trackers.UnreachableError, match="connection refused"):
    later.send(str(tmp_path))
  assert record.read(str(tmp_path), "mlflow").sent == {"train": 5}


def test_a_run_that_nobody_tracked(tmp_path):
  with pytest.raises(errors.SettingError, match="no mlflow.json.*MLflowHook"):
    later.send(str(tmp_path))


@pytest.mark.parametrize(
  ("sent", "is_missing"),
  [
    ({}, True),
    ({"train": 20}, True),
    ({"train": 10, "eval": 20}, True),
    ({"train": 20, "eval": 20}, False),
  ],
)
def test_a_run_misses_something_by_its_record(tmp_path, sent, is_missing):
  write(tmp_path, sent, train=[10, 20], eval=[20])
  assert later.is_missing_something(str(tmp_path)) is is_missing


def test_an_untracked_or_empty_run_misses_nothing(tmp_path):
  assert not later.is_missing_something(str(tmp_path))
  write(tmp_path, {})
  assert not later.is_missing_something(str(tmp_path))
