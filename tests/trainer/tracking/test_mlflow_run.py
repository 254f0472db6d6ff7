"""A run in MLflow, by MLflow's own client and a store of files."""

import collections
import json
import math

import pytest

import trainer
from tests.trainer.tracking import fake_trials
from trainer.reporting import metrics_file
from trainer.tracking import later, mlflow_process, mlflow_run, sender, sweep_runs, trackers

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def uri(tmp_path, monkeypatch):
  monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
  return f"file:{tmp_path}/store"


def a_run(folder, uri, experiment="tests"):
  folder.mkdir(parents=True, exist_ok=True)
  return mlflow_run.MlflowRun(str(folder), uri, experiment, folder.name)


def append(folder, *steps, kind="train", **values):
  for step in steps:
    metrics_file.append(str(folder), kind, step, values or {"loss": 1.0})


def runs_of(uri, experiment="tests"):
  client = mlflow.MlflowClient(uri)
  return client.search_runs([client.get_experiment_by_name(experiment).experiment_id])


def points(uri, run, metric):
  """step → how many points of a metric a run has."""
  history = mlflow.MlflowClient(uri).get_metric_history(run.info.run_id, metric)
  return collections.Counter(each.step for each in history)


def test_a_training_that_goes_on_is_one_run_with_each_step_once(tmp_path, uri):
  folder = tmp_path / "digits"
  first = a_run(folder, uri)
  append(folder, 10, 20)
  append(folder, 20, kind="eval_test", loss=0.5)
  sender.Sender(first, str(folder), begun_at=0).send()
  metrics_file.begin(str(folder), 10)
  append(folder, 20, 30)
  sender.Sender(a_run(folder, uri), str(folder), begun_at=10).send()
  [run] = runs_of(uri)
  assert points(uri, run, "train/loss") == {10: 1, 20: 1, 30: 1}
  assert points(uri, run, "eval_test/loss") == {20: 1}
  assert (run.info.status, run.info.run_name) == ("RUNNING", "digits")


def test_who_is_killed_before_the_record_tells_the_run_finds_it(tmp_path, uri):
  folder = tmp_path / "digits"
  first = a_run(folder, uri)
  first.open([])
  first.record.run = ""
  first.record.write()
  again = a_run(folder, uri)
  again.open([])
  assert again.run_id == first.run_id


def test_a_run_that_was_deleted_begins_again_with_all(tmp_path, uri):
  folder = tmp_path / "digits"
  append(folder.parent, 1)
  first = a_run(folder, uri)
  append(folder, 10)
  sender.Sender(first, str(folder)).send()
  mlflow.MlflowClient(uri).delete_run(first.run_id)
  again = a_run(folder, uri)
  append(folder, 20)
  sender.Sender(again, str(folder)).send()
  [run] = runs_of(uri)
  assert points(uri, run, "train/loss") == {10: 1, 20: 1}
  assert run.info.run_id != first.run_id


def test_names_and_numbers_that_mlflow_refuses(tmp_path, uri):
  folder = tmp_path / "digits"
  run = a_run(folder, uri)
  names = {"loss": math.nan, "top@5": 0.5, "top_5": 0.4, "a/../b": 1.0, "x" * 300: 2.0}
  append(folder, 10, **names)
  sender.Sender(run, str(folder)).send()
  [found] = runs_of(uri)
  metrics = found.data.metrics
  assert math.isnan(metrics["train/loss"])
  assert metrics["train/top_5"] == 0.4
  assert metrics["train/top_5.e3232938"] == 0.5
  assert metrics["train/b.8b01db4f"] == 1.0
  assert metrics[("train/" + "x" * 300)[:241] + ".1732babf"] == 2.0


def test_a_metric_that_the_server_refuses_costs_no_other(tmp_path, uri, monkeypatch, caplog):
  folder = tmp_path / "digits"
  run = a_run(folder, uri)
  append(folder, 10, 20, loss=1.0, odd=2.0)
  sending = sender.Sender(run, str(folder))
  monkeypatch.setattr(mlflow_run, "_allowed", lambda name: name.replace("odd", "o\tdd"))
  sending.send()
  [found] = runs_of(uri)
  assert points(uri, found, "train/loss") == {10: 1, 20: 1}
  assert set(found.data.metrics) == {"train/loss"}
  assert sum("refuses the metric" in each.getMessage() for each in caplog.records) == 1


def test_parameters_never_change_and_a_new_value_is_a_tag(tmp_path, uri):
  run = a_run(tmp_path / "digits", uri)
  run.open([])
  run.set_parameters({"Adam.learning_rate": "0.1", "long": "x" * 7000})
  run.set_parameters({"Adam.learning_rate": "0.2", "new": "1"})
  [found] = runs_of(uri)
  assert found.data.params == {"Adam.learning_rate": "0.1", "long": "x" * 6000, "new": "1"}
  assert found.data.tags["resumed with Adam.learning_rate"] == "0.2"


def test_what_was_not_sent_is_sent_later(tmp_path, uri):
  folder = tmp_path / "digits"
  run = a_run(folder, uri)
  append(folder, 10)
  sender.Sender(run, str(folder)).send()
  run.close(trackers.FINISHED)
  append(folder, 20)
  assert later.is_missing_something(str(folder))
  later.send(str(folder), status=trackers.FINISHED)
  assert not later.is_missing_something(str(folder))
  [found] = runs_of(uri)
  assert points(uri, found, "train/loss") == {10: 1, 20: 1}
  assert found.info.status == "FINISHED"


def test_no_server_is_unreachable(tmp_path, monkeypatch):
  monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
  run = a_run(tmp_path / "digits", "http://127.0.0.1:9")
  with pytest.raises(trackers.UnreachableError, match="127.0.0.1"):
    run.open([])


def trials(tmp_path, count):
  """Yields the folders of a sweep's trials, before they run."""
  for number in range(count):
    folder = fake_trials.add(tmp_path / "sweep", number)
    append(folder, 10)
    yield folder


def finish_sweep(tmp_path, ended):
  (tmp_path / "best.gin").write_text("LR = 0.1")
  files = {"best.gin": str(tmp_path / "best.gin")}
  ended = {str(tmp_path / "sweep" / "trials" / name): how for name, how in ended.items()}
  sweep_runs.finish(str(tmp_path / "sweep"), {"loss": 0.5}, files, ended)


def test_the_trials_of_a_sweep_are_children_of_one_run(tmp_path, uri):
  for folder in trials(tmp_path, 3):
    hook = trainer.MLflowHook(tracking_uri=uri, experiment="tests")
    sender.Sender(hook.make_tracker(str(folder)), str(folder)).send()
  finish_sweep(tmp_path, {"2": trackers.KILLED})
  found = {run.info.run_name: run for run in runs_of(uri)}
  parent = found.pop("lr")
  assert set(found) == {"trial 0", "trial 1", "trial 2"}
  assert {run.data.tags["mlflow.parentRunId"] for run in found.values()} == {parent.info.run_id}
  assert (parent.info.status, parent.data.metrics["best/loss"]) == ("FINISHED", 0.5)
  assert found["trial 2"].info.status == "KILLED"
  files = mlflow.MlflowClient(uri).list_artifacts(parent.info.run_id)
  assert [file.path for file in files] == ["best.gin"]


def test_a_sweep_sends_trials_that_found_no_server(tmp_path, uri, monkeypatch):
  ask = mlflow_process.ask

  def refuse(*arguments, **named):
    raise trackers.UnreachableError("connection refused")

  monkeypatch.setattr(mlflow_process, "ask", refuse)
  for folder in trials(tmp_path, 2):
    with pytest.raises(trackers.UnreachableError):
      sender.Sender(mlflow_run.MlflowRun(str(folder), uri, "tests", "a"), str(folder)).send()
  monkeypatch.setattr(mlflow_process, "ask", ask)
  finish_sweep(tmp_path, {"0": trackers.FINISHED, "1": trackers.FINISHED})
  found = {run.info.run_name: run for run in runs_of(uri)}
  parent = found.pop("lr")
  assert set(found) == {"trial 0", "trial 1"}
  assert {run.data.tags["mlflow.parentRunId"] for run in found.values()} == {parent.info.run_id}
  assert {run.info.status for run in found.values()} == {"FINISHED"}
  assert points(uri, found["trial 1"], "train/loss") == {10: 1}


def test_a_run_tells_its_program_and_its_command(tmp_path, uri):
  run = a_run(tmp_path / "digits", uri)
  command = "python -m trainer.main '--gin_bindings=MLflowHook.tracking_uri=\"http://host\"'"
  known = {"started": "2026-11-21", "command": command, "commit": "4f0c", "earlier": []}
  (tmp_path / "digits" / "environment.json").write_text(json.dumps(known))
  run.open([])
  run.set_parameters({})
  tags = runs_of(uri)[0].data.tags
  assert tags["mlflow.source.name"] == "trainer.main"
  assert tags["mlflow.source.git.commit"] == "4f0c"
  assert tags["command"] == command
