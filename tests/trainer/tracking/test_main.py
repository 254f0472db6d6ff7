"""`trainer.tracking`: sends each named run, and tells which one it could not send."""

import pytest

from tests.trainer import mains
from trainer import errors
from trainer.reporting import metrics_file
from trainer.tracking import mlflow_hook, record


@pytest.fixture
def sent(monkeypatch):
  """Each file list and step that a stand-in for MLflow got; "down" as address refuses."""
  sent = []

  def open_run(self, model_dir, kinds):
    self.record = record.read(model_dir, "mlflow")
    if self.tracking_uri == "http://down":
      raise ConnectionRefusedError("connection refused\nmore")
    sent.append((model_dir, self.tracking_uri, self.experiment))
    return {}

  monkeypatch.setattr(mlflow_hook.importlib.util, "find_spec", lambda name: True)
  monkeypatch.setattr(mlflow_hook.MLflowHook, "open", open_run)
  monkeypatch.setattr(
    mlflow_hook.MLflowHook,
    "send",
    lambda self, lines: sent.append([line["step"] for line in lines]),
  )
  monkeypatch.setattr(
    mlflow_hook.MLflowHook, "set_parameters", lambda self, known: sent.append(known)
  )
  monkeypatch.setattr(
    mlflow_hook.MLflowHook, "add_files", lambda self, files: sent.append(sorted(files))
  )
  return sent


def run(*arguments, flags=()):
  with mains.loaded("trainer.tracking.main", *flags) as main:
    main.main(["tracking", *arguments])


def write(folder, *steps, server="http://old"):
  folder.mkdir()
  for step in steps:
    metrics_file.append(str(folder), "train", step, {"loss": 1.0})
  record.Record(record.path(str(folder), "mlflow"), server=server, project="digits").write()
  return str(folder)


def test_each_run_is_sent_and_told(tmp_path, sent, capsys):
  folders = [write(tmp_path / "a", 10, 20), write(tmp_path / "b", 30)]
  (tmp_path / "a" / "operative_config.gin").write_text("run.train_steps = 20\n")
  run(*folders)
  config, report = "operative_config.gin", "report.html"
  assert sent[:4] == [
    (folders[0], "http://old", "digits"),
    [10, 20],
    {"run.train_steps": "20"},
    [config, report],
  ]
  assert sent[4:6] == [(folders[1], "http://old", "digits"), [30]]
  told = [f"{folder}: MLflow at http://old has all." for folder in folders]
  assert capsys.readouterr().out.splitlines() == told
  assert record.read(folders[0], "mlflow").sent == {"train": 20}


def test_an_address_replaces_that_of_the_record(tmp_path, sent):
  folder = write(tmp_path / "a", 10)
  run(folder, flags=["--tracking_uri=http://new"])
  assert sent[0] == (folder, "http://new", "digits")


def test_without_a_folder_there_is_an_example(sent):
  with pytest.raises(errors.SettingError, match="No folder of a run. Try"):
    run()


def test_a_run_that_nobody_tracked(tmp_path, sent):
  with pytest.raises(errors.SettingError, match="no mlflow.json.*MLflowHook"):
    run(str(tmp_path))


def test_a_run_that_is_not_sent_is_named(tmp_path, sent):
  down = write(tmp_path / "down", 10, server="http://down")
  with pytest.raises(
    errors.OutputError, match=f"Cannot send {down}: connection refused\\. --tracking_uri.*TOKEN"
  ):
    run(write(tmp_path / "a", 10), down, write(tmp_path / "b", 10))
  assert len([each for each in sent if isinstance(each, tuple)]) == 1
