"""What Weights & Biases is given of a run, by a stand-in for its package."""

import pytest

import trainer
from tests.trainer import programs
from tests.trainer.tracking import fake_trials
from trainer import errors
from trainer.reporting import metrics_file
from trainer.tracking import hook, sender, wandb_hook


def a_hook(project="digits", **settings):
  return trainer.WandbHook(project=project, mode="offline", **settings)


def opened(folder, **settings):
  folder.mkdir(parents=True, exist_ok=True)
  following = a_hook(**settings)
  following.open(str(folder), [])
  return following


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
    sender.Sender(a_hook(project), str(tmp_path)).send()
  first, second = wandb.runs
  assert first.id != second.id
  assert [len(run.lines) for run in wandb.runs] == [1, 1]


def test_a_killed_process_has_given_each_step_once(tmp_path, wandb):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20)
  sender.Sender(a_hook(), str(tmp_path), begun_at=0).send()
  metrics_file.begin(str(tmp_path), 10)
  append(tmp_path, 20, 30)
  sender.Sender(a_hook(), str(tmp_path), begun_at=10).send()
  assert [[line["global_step"] for line in run.lines] for run in wandb.runs] == [[10, 20], [30]]


def test_the_trials_of_a_sweep_are_a_group(tmp_path, wandb):
  for number in range(2):
    folder = fake_trials.add(tmp_path, number)
    opened(folder)
  assert [
    (run.settings["group"], run.settings["job_type"], run.settings["name"]) for run in wandb.runs
  ] == [("lr", "trial", "trial 0"), ("lr", "trial", "trial 1")]
  assert wandb.runs[0].id != wandb.runs[1].id


def test_parameters_are_numbers_where_gin_has_numbers(tmp_path, wandb):
  run = opened(tmp_path, tags=["first"])
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
  run = opened(tmp_path)
  run.add_files(
    {"config.gin": str(tmp_path / "config.gin"), "export/1795": str(tmp_path / "model")}
  )
  own = run.record.id
  assert [(each.name, each.type, each.files) for each in wandb.runs[0].artifacts] == [
    (f"files-{own}", "files", ["config.gin", "export/1795"])
  ]


@pytest.mark.parametrize("status", [hook.FAILED, hook.KILLED])
def test_a_training_that_does_not_finish_has_an_exit_code(tmp_path, wandb, status):
  run = opened(tmp_path)
  run.close(status)
  assert wandb.runs[0].exit_code == 1


def settings_of(wandb, folder, **settings):
  folder.mkdir()
  trainer.WandbHook(**settings).open(str(folder), [])
  return wandb.runs[-1].settings


def test_an_empty_setting_is_wandbs_own_default(wandb, tmp_path):
  found = settings_of(wandb, tmp_path / "digits")
  assert found["name"] == "digits"
  assert {found[key] for key in ("project", "entity", "tags", "mode")} == {None}


def test_settings_arrive(wandb, tmp_path):
  given = dict(project="p", entity="team", run_name="first", mode="offline", tags=("a", "b"))
  found = settings_of(wandb, tmp_path / "digits", **given)
  assert [found[key] for key in ("project", "entity", "name", "mode", "tags")] == [
    "p",
    "team",
    "first",
    "offline",
    ["a", "b"],
  ]


@pytest.mark.parametrize("settings", [{"mode": "on"}, {"artifacts": ["weights"]}, {"seconds": 0}])
def test_a_setting_that_cannot_work_is_named(wandb, settings):
  (name,) = settings
  with pytest.raises(errors.SettingError, match=f"WandbHook.{name}"):
    trainer.WandbHook(**settings)


def test_without_wandb_the_hook_says_how_to_install_it(monkeypatch):
  monkeypatch.setattr(wandb_hook.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(errors.SettingError, match=r"WandbHook needs wandb: pip install .*\[wandb\]"):
    trainer.WandbHook()
