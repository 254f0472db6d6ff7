"""Two processes on one sweep in PostgreSQL, one of them killed."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from tests.trainer.sweep import postgres, programs
from tests.trainer.sweep.test_trial_server import until_written
from trainer.sweep import study

ROOT = pathlib.Path(__file__).parents[3]

COUNT = 4

# A process of the sweep; the first has a trial that waits for ever, and is killed with it.
PROCESS = f"""
import pathlib, sys
from tests.trainer.sweep import programs
from trainer.sweep import engine, study, trial_server
folder, url, act = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = programs.settings(folder / act)
found = study.Study.open(url, "s", settings, settings.definition(), join=act == "run")
if act == "hang":
  found.make_trials({COUNT})
starter = trial_server.Starter("fork", str(folder / f"{{act}}.log"), "tests.trainer.sweep.fake_trial")
common = ["--gin_bindings=act = hang"] if act == "hang" else []
engine.Engine(found, starter, [{{"cores": [], "environment": {{}}}}], str(folder), common, {COUNT}).finish_trials()
"""


@pytest.fixture(scope="module")
def url():
  # Not below tmp_path, which only its owner can reach.
  folder = tempfile.mkdtemp(prefix="sweep_postgres")
  try:
    with postgres.server(folder) as address:
      yield address
  except postgres.UnavailableError as reason:
    pytest.skip(str(reason))
  finally:
    shutil.rmtree(folder, ignore_errors=True)


def start(folder, url, act):
  (folder / act).mkdir()
  return subprocess.Popen([sys.executable, "-c", PROCESS, str(folder), url, act], cwd=ROOT)


def test_other_process_takes_up_the_trial_of_a_killed_one(tmp_path, url):
  killed = start(tmp_path, url, "hang")
  until_written(
    tmp_path / "trials" / "0" / "here",
    lambda: killed.poll() is None or pytest.fail("it ended by itself"),
  )
  other = start(tmp_path, url, "run")
  # The other has begun with what it can get, while the first still has its trial.
  until_written(
    tmp_path / "trials" / "1" / "checkpoint",
    lambda: other.poll() is None or pytest.fail("it ended by itself"),
  )
  killed.kill()
  killed.wait()
  assert other.wait(timeout=250) == 0
  settings = programs.settings(tmp_path)
  trials = study.Study.open(url, "s", settings, settings.definition(), join=True).trials()
  assert [trial.state.name for trial in trials] == ["COMPLETE"] * COUNT
  assert trials[0].value == pytest.approx(trials[0].params["experiment.x"])
  assert "act = hang" not in (tmp_path / "trials" / "0" / "command.txt").read_text()
