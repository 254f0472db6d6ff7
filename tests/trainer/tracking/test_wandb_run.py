"""What Weights & Biases is given of a run, by a stand-in for its package."""

import math

import pytest

import trainer
from tests.trainer import programs
from tests.trainer.tracking import fake_trials, fake_wandb
from trainer.reporting import metrics_file
from trainer.tracking import sender, trackers, wandb_run


def a_run(folder, project="digits", mode="offline", tags=()):
  folder.mkdir(parents=True, exist_ok=True)
  return wandb_run.WandbRun(str(folder), project, "", folder.name, mode, tags)


def append(folder, *steps, kind="train", **values):
  for step in steps:
    metrics_file.append(str(folder), kind, step, values or {"loss": 1.0})


def train(folder, max_steps, **settings):
  trainer.train_and_evaluate(
    programs.estimator(folder, save_checkpoints_steps=10, save_summary_steps=10),
    trainer.TrainSpec(
      programs.train_input, max_steps, [trainer.WandbHook(mode="offline", **settings)]
    ),
    trainer.EvalSpec(programs.examples(16)),
  )


def test_a_training_that_goes_on_goes_on_in_its_run(tmp_path, wandb):
  for max_steps in (20, 40):
    train(tmp_path / "line", max_steps, project="lines", artifacts=["config"])
  first, second = wandb.runs
  assert first.id == second.id
  assert (second.settings["resume"], second.settings["mode"]) == ("allow", "offline")
  for run, steps in ((first, [10, 10, 20, 20]), (second, [30, 30, 40, 40])):
    assert [line["global_step"] for line in run.lines] == steps
    kinds = [{name.partition("/")[0] for name in line} for line in run.lines]
    assert kinds == [{"global_step", kind} for kind in ("train", "eval")] * 2
    assert run.axes == {"global_step": None, "*": "global_step"}
    assert run.exit_code is None
  assert (first.settings["project"], first.settings["name"]) == ("lines", "line")
  assert first.settings["dir"] == str(tmp_path / "line")


def test_another_project_is_another_run(tmp_path, wandb):
  append(tmp_path, 10)
  for project in ("digits", "others"):
    sender.Sender(a_run(tmp_path, project), str(tmp_path)).send()
  first, second = wandb.runs
  assert first.id != second.id
  assert [len(run.lines) for run in wandb.runs] == [1, 1]


def test_a_killed_process_has_given_each_step_once(tmp_path, wandb):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20)
  sender.Sender(a_run(tmp_path), str(tmp_path), begun_at=0).send()
  metrics_file.begin(str(tmp_path), 10)
  append(tmp_path, 20, 30)
  sender.Sender(a_run(tmp_path), str(tmp_path), begun_at=10).send()
  assert [[line["global_step"] for line in run.lines] for run in wandb.runs] == [[10, 20], [30]]


def test_the_trials_of_a_sweep_are_a_group(tmp_path, wandb):
  for number in range(2):
    folder = fake_trials.add(tmp_path, number)
    trainer.WandbHook(mode="offline").make_tracker(str(folder)).open([])
  assert [
    (run.settings["group"], run.settings["job_type"], run.settings["name"]) for run in wandb.runs
  ] == [("lr", "trial", "trial 0"), ("lr", "trial", "trial 1")]
  assert wandb.runs[0].id != wandb.runs[1].id


def test_without_access_the_run_is_kept_on_the_disk(tmp_path, wandb, caplog):
  wandb.refused = fake_wandb.Error("api_key not configured (no-tty)")
  run = a_run(tmp_path, mode="")
  run.open([])
  run.send([{"kind": "train", "step": 10, "time": 1.0, "loss": None}])
  [kept] = wandb.runs
  assert kept.settings["mode"] == "offline"
  assert math.isnan(kept.lines[0]["train/loss"])
  [warning] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
  assert "api_key not configured" in warning
  assert f"{tmp_path}/wandb keeps it; `wandb sync` sends it" in warning


def test_parameters_are_numbers_where_gin_has_numbers(tmp_path, wandb):
  run = a_run(tmp_path, tags=["first"])
  run.open([])
  run.set_parameters({"Adam.learning_rate": "0.1", "run.model_fn": "@line", "run.resume": "True"})
  [known] = wandb.runs
  assert known.parameters == {
    "Adam.learning_rate": 0.1,
    "run.model_fn": "@line",
    "run.resume": "True",
  }
  assert known.settings["tags"] == ["first"]


def test_files_are_artifacts(tmp_path, wandb):
  (tmp_path / "config.gin").write_text("A = 1")
  (tmp_path / "model").mkdir()
  run = a_run(tmp_path)
  run.open([])
  run.add_files(
    {"config.gin": str(tmp_path / "config.gin"), "export/1795": str(tmp_path / "model")}
  )
  own = run.record.id
  assert [(each.name, each.type, each.files) for each in wandb.runs[0].artifacts] == [
    (f"export-{own}", "export", [str(tmp_path / "model")]),
    (f"files-{own}", "files", ["config.gin"]),
  ]


@pytest.mark.parametrize("status", [trackers.FAILED, trackers.KILLED])
def test_a_training_that_does_not_finish_has_an_exit_code(tmp_path, wandb, status):
  run = a_run(tmp_path)
  run.open([])
  run.close(status)
  assert wandb.runs[0].exit_code == 1
