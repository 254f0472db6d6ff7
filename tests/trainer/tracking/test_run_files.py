"""The files of a run for a tracker: their names there, and the newest exports alone."""

import json
import os

import pytest

from trainer.tracking import run_files


@pytest.fixture
def run(tmp_path):
  folder = tmp_path / "out" / "digits"
  for path in (
    "config.gin",
    "operative_config.gin",
    "evaluation_reports/eval-5.json",
    "export/best/100/saved_model.pb",
    "export/best/99/saved_model.pb",
    "export/final/7/saved_model.pb",
    "model.ckpt-5.index",
  ):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("run.steps = 5\n")
  for path, newest in (("export/best", "100"), ("export/final", "7")):
    record = {"folder": newest, "metrics": {"global_step": 5}}
    (folder / path / "exported.json").write_text(json.dumps(record))
  return str(folder)


@pytest.mark.parametrize(
  ("wanted", "names"),
  [
    ((run_files.CONFIG,), {"config.gin", "operative_config.gin"}),
    ((run_files.EXPORT,), {"export/best/100", "export/final/7"}),
    ((), set()),
  ],
)
def test_the_files_of_each_kind(run, wanted, names):
  with run_files.of_run(run, wanted) as files:
    assert files == {name: os.path.join(run, name) for name in names}


def test_a_folder_with_a_slash_gives_the_same(run):
  assert run_files.name_of(run + "/") == run_files.name_of(run) == "digits"
  with run_files.of_run(run + "/", (run_files.EXPORT,)) as files:
    assert files.keys() == {"export/best/100", "export/final/7"}


def test_files_on_another_file_system_stay_there(run):
  with run_files.of_run("file://" + run, (run_files.CONFIG, run_files.EXPORT)) as files:
    assert files == {}


def test_parameters_are_the_bindings_that_took_effect(run, tmp_path):
  assert run_files.parameters(run) == {"run.steps": "5"}
  assert run_files.parameters(str(tmp_path)) == {}
