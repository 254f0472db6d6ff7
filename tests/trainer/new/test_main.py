"""A new project trains and passes its own test, and hides nothing."""

import os
import pathlib
import subprocess
import sys

import pytest

import trainer
from trainer import errors
from trainer.new import main

ROOT = pathlib.Path(trainer.__file__).parents[1]


def python(folder, *arguments):
  """What `python -m` says in a folder where Octet is installed, as by pip."""
  return subprocess.run(
    [sys.executable, "-m", *arguments],
    cwd=folder,
    env=dict(os.environ, PYTHONPATH=str(ROOT)),
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )


def test_what_it_consists_of(tmp_path):
  made = main.create(tmp_path / "mine")
  assert sorted(str(path.relative_to(tmp_path / "mine")) for path in made) == [
    "README.md",
    "configs/mine.gin",
    "data/test.csv",
    "data/train.csv",
    "mine/__init__.py",
    "mine/model.py",
    "tests/test_mine.py",
  ]


@pytest.mark.parametrize("name", ["models", "input_pipelines", "json", "numpy", "tests", "data"])
def test_a_name_that_is_taken(name, tmp_path):
  with pytest.raises(
    errors.SettingError, match=f"Another module has the name {name} .*hide the other"
  ):
    main.create(tmp_path / name)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["my-project", "class", "MyProject", "1st", "x" * 101])
def test_a_name_that_no_package_can_have(name, tmp_path):
  with pytest.raises(errors.SettingError, match="cannot be the name of a package"):
    main.create(tmp_path / name)


def test_a_folder_that_is_there_stays_as_it_is(tmp_path, monkeypatch):
  monkeypatch.syspath_prepend(tmp_path)  # as a command's folder
  (tmp_path / "mine").mkdir()
  with pytest.raises(errors.SettingError, match="mine is there already"):
    main.create(tmp_path / "mine")
  assert not list((tmp_path / "mine").iterdir())


def test_a_folder_that_cannot_be_written(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(errors.OutputError, match="Cannot write the project to"):
    main.create(tmp_path / "file" / "mine")


def test_not_one_name():
  with pytest.raises(errors.SettingError, match=r"python -m trainer\.new my_project"):
    main.main(["trainer.new"])


def test_a_url_is_no_folder_of_this_machine(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(errors.SettingError, match="gs://bucket/mine is a URL"):
    main.main(["trainer.new", "gs://bucket/mine"])
  assert not list(tmp_path.iterdir())
