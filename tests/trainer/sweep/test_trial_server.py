"""The process that starts trials, with trials that need no TensorFlow."""

import os
import pathlib
import select
import signal
import subprocess
import sys

import pytest

from tests import long
from trainer import errors
from trainer.sweep import machine, trial_server

SLOT = {"cores": [], "environment": {}}
FAKE = "tests.trainer.sweep.fake_trial"


class Trials:
  """A Starter, and folders for trials."""

  def __init__(self, folder, how):
    self.folder = folder
    self.starter = trial_server.Starter(how, str(folder / "server.log"), FAKE)

  def start(self, name, act="", slot=SLOT):
    """Starts a trial; returns its folder."""
    model_dir = self.folder / name
    model_dir.mkdir(exist_ok=True)
    bindings = [
      "--gin_bindings=experiment.x = 0.5",
      *([f"--gin_bindings=act = {act}"] if act else []),
    ]
    self.starter.start(
      name,
      [f"--model_dir={model_dir}", *bindings],
      str(model_dir / "log.txt"),
      str(model_dir / "lock"),
      slot,
    )
    return model_dir

  def code(self, name):
    """The exit code of a trial, once it has ended."""
    while name not in self.starter.ended:
      self.starter.wait(None)
    return self.starter.ended.pop(name)

  def until_here(self, model_dir):
    """The pid of a trial, once it has told that it is there."""
    return until_written(model_dir / "here", lambda: self.starter.wait(0.01))


def until_written(path, meanwhile):
  """The number in a file, once there is one."""
  while not (path.exists() and path.read_text()):
    meanwhile()
  return int(path.read_text())


@pytest.fixture(params=["fork", "spawn"])
def trials(request, tmp_path):
  made = Trials(tmp_path, request.param)
  yield made
  made.starter.close()


# The gate runs the other tests by spawn too.
BY_FORK = pytest.mark.parametrize(
  "trials", long.except_for(["fork"], ["fork", "spawn"]), indirect=True
)


def test_a_trial_runs_with_its_share_of_the_machine(trials):
  core = machine.cores()[-1]
  model_dir = trials.start("a", slot={"cores": [core], "environment": {"OMP_NUM_THREADS": "7"}})
  assert trials.code("a") == 0
  assert (model_dir / "checkpoint").read_text() == "5"
  assert f"cores [{core}] omp 7" in (model_dir / "log.txt").read_text()


def test_exit_codes_and_last_words(trials):
  model_dir = trials.start("a", "exit 3")
  assert trials.code("a") == 3
  assert "this went wrong" in (model_dir / "log.txt").read_text()


@BY_FORK
def test_signals_reach_the_trial_that_is_meant(trials):
  one, two = trials.start("one", "wait"), trials.start("two", "wait")
  trials.until_here(one)
  trials.until_here(two)
  trials.starter.signal("two", signal.SIGTERM)
  assert trials.code("two") == 75
  trials.starter.signal("one", signal.SIGKILL)
  assert trials.code("one") == -signal.SIGKILL
  trials.starter.signal("one", signal.SIGKILL)  # it has ended
  trials.start("three")
  assert trials.code("three") == 0


@BY_FORK
def test_a_folder_has_one_process_at_a_time(trials):
  model_dir = trials.start("a", "wait")
  trials.until_here(model_dir)
  (model_dir / "here").unlink()
  second = Trials(trials.folder, "fork")
  second.start("a", "wait")
  trials.starter.signal("a", signal.SIGTERM)
  assert trials.code("a") == 75
  second.until_here(model_dir)  # not before the first has ended: it left no `here` behind
  second.starter.close()


def test_a_server_that_dies_is_reported(trials):
  os.kill(trials.starter._process.pid, signal.SIGKILL)
  with pytest.raises(errors.OutputError, match="has ended .exit code -9.*same command continues"):
    trials.starter.wait(None)


def test_a_mistake_in_a_row_is_found(tmp_path):
  trials = Trials(tmp_path, "fork")
  assert "no gin file nowhere.gin" in trials.starter.check(["nowhere.gin"], [["a.b = 1"]])
  trials.starter.close()


PARENT = """
import pathlib, sys
from tests.trainer.sweep import test_trial_server
trials = test_trial_server.Trials(pathlib.Path(sys.argv[1]), "fork")
pids = [trials.until_here(trials.start(name, act)) for name, act in (("a", "wait"), ("b", "hang"))]
print(*pids, flush=True)
trials.starter.wait(None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_nothing_lives_on_when_the_sweep_is_killed(tmp_path):
  parent = subprocess.Popen(
    [sys.executable, "-c", PARENT, str(tmp_path)],
    stdout=subprocess.PIPE,
    text=True,
    cwd=pathlib.Path(__file__).parents[3],
  )
  pids = list(map(int, parent.stdout.readline().split()))
  assert len(pids) == 2
  watched = [os.pidfd_open(pid) for pid in pids]
  parent.kill()
  parent.wait()
  for descriptor in watched:  # readable once its process has ended
    assert select.select([descriptor], [], [], 60)[0]
    os.close(descriptor)


def test_a_process_with_threads_is_not_forked(monkeypatch):
  assert trial_server._why_not_fork() != ""  # TensorFlow is in use in tests
  monkeypatch.setattr(trial_server.os, "listdir", lambda path: ["1"])
  monkeypatch.delitem(sys.modules, "tensorflow")
  assert trial_server._why_not_fork() == ""
  monkeypatch.setattr(trial_server.os, "listdir", lambda path: ["1", "2"])
  assert "2 threads" in trial_server._why_not_fork()
