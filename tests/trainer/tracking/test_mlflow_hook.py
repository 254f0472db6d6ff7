"""A run in MLflow, by MLflow's own client and a store of files."""

import collections
import json
import math

import pytest

import trainer
from tests.trainer.tracking import fake_trials
from trainer import errors
from trainer.reporting import metrics_file
from trainer.tracking import hook, mlflow_hook, record, sender

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def uri(tmp_path, monkeypatch):
  monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
  return f"file:{tmp_path}/store"


def a_hook(uri, experiment="tests"):
  return trainer.MLflowHook(tracking_uri=uri, experiment=experiment)


def opened(folder, uri):
  folder.mkdir(parents=True, exist_ok=True)
  following = a_hook(uri)
  following.open(str(folder), [])
  return following


def send(folder, uri, begun_at=None, **ending):
  sender.Sender(a_hook(uri), str(folder), begun_at).send(**ending)


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
  folder.mkdir()
  append(folder, 10, 20)
  append(folder, 20, kind="eval_test", loss=0.5)
  send(folder, uri, begun_at=0)
  metrics_file.begin(str(folder), 10)
  append(folder, 20, 30)
  send(folder, uri, begun_at=10)
  [run] = runs_of(uri)
  assert points(uri, run, "train/loss") == {10: 1, 20: 1, 30: 1}
  assert points(uri, run, "eval_test/loss") == {20: 1}
  assert (run.info.status, run.info.run_name) == ("RUNNING", "digits")
  send(folder, uri, status=hook.KILLED, artifacts=[])
  assert runs_of(uri)[0].info.status == "KILLED"


def test_who_is_killed_before_the_record_tells_the_run_finds_it(tmp_path, uri):
  folder = tmp_path / "digits"
  first = opened(folder, uri)
  first.record.run = ""
  first.record.write()
  opened(folder, uri)
  assert len(runs_of(uri)) == 1


def test_another_experiment_is_another_run(tmp_path, uri):
  folder = tmp_path / "digits"
  opened(folder, uri)
  a_hook(uri, "others").open(str(folder), [])
  assert [len(runs_of(uri, name)) for name in ("tests", "others")] == [1, 1]
  a_hook(uri, "").open(str(folder), [])
  assert [len(runs_of(uri, name)) for name in ("tests", "others")] == [1, 1]


def test_a_run_that_was_deleted_begins_again_with_all(tmp_path, uri):
  folder = tmp_path / "digits"
  folder.mkdir()
  append(folder, 10)
  send(folder, uri)
  [first] = runs_of(uri)
  mlflow.MlflowClient(uri).delete_run(first.info.run_id)
  append(folder, 20)
  send(folder, uri)
  [run] = runs_of(uri)
  assert points(uri, run, "train/loss") == {10: 1, 20: 1}
  assert run.info.run_id != first.info.run_id


def test_names_and_numbers_that_mlflow_refuses(tmp_path, uri):
  folder = tmp_path / "digits"
  folder.mkdir()
  names = {"loss": math.nan, "top@5": 0.5, "top_5": 0.4, "a/../b": 1.0, "x" * 300: 2.0}
  append(folder, 10, **names)
  send(folder, uri)
  [found] = runs_of(uri)
  metrics = found.data.metrics
  assert math.isnan(metrics["train/loss"])
  assert metrics["train/top_5"] == 0.4
  assert metrics["train/top_5.e3232938"] == 0.5
  assert metrics["train/b.8b01db4f"] == 1.0
  assert metrics[("train/" + "x" * 300)[:241] + ".1732babf"] == 2.0


def test_more_values_than_the_server_takes_at_once(tmp_path, uri):
  folder = tmp_path / "digits"
  folder.mkdir()
  append(folder, *range(1001))
  following = opened(folder, uri)
  following.send(metrics_file.read(str(folder)))
  following.set_parameters({f"p{number}": "1" for number in range(101)})
  [found] = runs_of(uri)
  assert len(points(uri, found, "train/loss")) == 1001
  assert len(found.data.params) == 101


def test_parameters_never_change(tmp_path, uri):
  following = opened(tmp_path / "digits", uri)
  following.set_parameters({"Adam.learning_rate": "0.1", "long": "x" * 7000})
  following.set_parameters({"Adam.learning_rate": "0.2", "new": "1"})
  [found] = runs_of(uri)
  assert found.data.params == {"Adam.learning_rate": "0.1", "long": "x" * 6000, "new": "1"}


def test_files_and_folders_have_their_names(tmp_path, uri):
  following = opened(tmp_path / "digits", uri)
  (tmp_path / "config.gin").write_text("A = 1")
  (tmp_path / "model").mkdir()
  (tmp_path / "model" / "saved_model.pb").touch()
  names = {"config.gin": "config.gin", "export/best/7": "model"}
  following.add_files({name: str(tmp_path / path) for name, path in names.items()})
  [run] = runs_of(uri)
  client = mlflow.MlflowClient(uri)
  assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["config.gin", "export"]
  [found] = client.list_artifacts(run.info.run_id, "export/best/7")
  assert found.path == "export/best/7/saved_model.pb"


def test_no_server_is_an_error_with_its_address(tmp_path, monkeypatch):
  monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
  with pytest.raises(mlflow.MlflowException, match="127.0.0.1"):
    opened(tmp_path / "digits", "http://127.0.0.1:9")
  assert record.read(str(tmp_path / "digits"), "mlflow").server == "http://127.0.0.1:9"


def test_the_trials_of_a_sweep_have_its_name(tmp_path, uri):
  for number in range(2):
    folder = fake_trials.add(tmp_path / "sweep", number)
    append(folder, 10)
    send(folder, uri)
  found = {run.info.run_name: run.data.tags["sweep"] for run in runs_of(uri)}
  assert found == {"trial 0": "lr", "trial 1": "lr"}


def test_trials_that_make_the_experiment_at_the_same_time(tmp_path, uri, monkeypatch):
  opened(tmp_path / "first", uri)
  ask = mlflow.MlflowClient.get_experiment_by_name
  answers = [None]  # as before the other trial made it

  def late(client, name):
    return answers.pop() if answers else ask(client, name)

  monkeypatch.setattr(mlflow.MlflowClient, "get_experiment_by_name", late)
  opened(tmp_path / "second", uri)
  assert len(runs_of(uri)) == 2


def test_a_run_tells_its_command_and_commit(tmp_path, uri):
  following = opened(tmp_path / "digits", uri)
  command = "python -m trainer.main '--gin_bindings=MLflowHook.tracking_uri=\"http://host\"'"
  known = {"started": "2026-11-21", "command": command, "commit": "4f0c", "earlier": []}
  (tmp_path / "digits" / "environment.json").write_text(json.dumps(known))
  following.set_parameters({})
  tags = runs_of(uri)[0].data.tags
  assert tags["mlflow.source.git.commit"] == "4f0c"
  assert tags["command"] == command


def test_without_mlflow_the_hook_says_how_to_install_it(monkeypatch):
  monkeypatch.setattr(mlflow_hook.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(
    errors.SettingError, match=r"MLflowHook needs MLflow: pip install .*\[mlflow\]"
  ):
    trainer.MLflowHook()


def test_an_artifact_that_is_none(uri):
  with pytest.raises(errors.SettingError, match="MLflowHook.artifacts"):
    trainer.MLflowHook(artifacts=["everything"])


def test_a_password_is_not_shown():
  assert mlflow_hook.without_password("https://me:secret@host/x") == "https://host/x"
