"""The settings of WandbHook, as its run gets them."""

import pytest

import trainer
from trainer import errors
from trainer.tracking import wandb_run


def opened(wandb, folder, **settings):
  folder.mkdir(exist_ok=True)
  trainer.WandbHook(**settings).make_tracker(str(folder)).open([])
  return wandb.runs[-1].settings


def test_an_empty_setting_is_wandbs_own_default(wandb, tmp_path):
  found = opened(wandb, tmp_path / "digits")
  assert found["name"] == "digits"
  assert {found[key] for key in ("project", "entity", "tags", "mode")} == {None}


def test_settings_arrive(wandb, tmp_path):
  given = dict(project="p", entity="team", run_name="first", mode="offline", tags=("a", "b"))
  found = opened(wandb, tmp_path / "digits", **given)
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
  monkeypatch.setattr(wandb_run.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(errors.SettingError, match=r"WandbHook needs wandb: pip install .*\[wandb\]"):
    trainer.WandbHook()
