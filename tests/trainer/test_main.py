"""The command's flags reach the run; what a user types wrongly is told at once, without TensorFlow.

The command runs in processes of its own, in which TensorFlow cannot be imported: flags are global
to a process, and the test's own has TensorFlow.
"""

import dataclasses
import json
import subprocess
import sys

import pytest

from trainer import experiment
from trainer.config import files

START = """
import runpy, sys
sys.modules["tensorflow"] = None
sys.argv = {argv}
{before}
runpy.run_module("trainer.main", run_name="__main__", alter_sys=True)
"""

# In place of the run: writes down what it was given.
RECORD = """
import json, types
from trainer.config import loading
loading.load = lambda files, bindings, modules: print(json.dumps([files, bindings]))
run = lambda given: print(json.dumps(given))
sys.modules["trainer.experiment"] = types.SimpleNamespace(run=run, Flags=dict)
"""


def run(*arguments, before=""):
  code = START.format(argv=["main", *arguments], before=before)
  return subprocess.run(
    [sys.executable, "-c", code],
    cwd=files.ROOT,
    capture_output=True,
    text=True,
    timeout=60,
    check=False,
  )


@pytest.mark.parametrize(
  ("arguments", "code", "said"),
  [
    (
      ["--help"],
      0,
      "python -m trainer.main --gin_file=gin_configs/digits.gin --model_dir=out/digits",
    ),
    ([], 2, "error: No --gin_file. Try: python -m trainer.main --gin_file="),
    (
      ["--gin_file=a.gin", "--mode=trian"],
      2,
      "error: flag --mode=trian: value should be one of <train|",
    ),
    (["--gin_file=gin_configs/digits.gin"], 2, "error: No --model_dir: give the folder"),
    (
      ["--gin_file=gin_configs/nowhere.gin", "--model_dir=out"],
      2,
      "error: There is no gin file gin_configs/nowhere.gin.",
    ),
    (
      ["--gin_file=gin_configs/nowhere.gin", "--dry_run"],
      2,
      "error: There is no gin file gin_configs/nowhere.gin.",
    ),
    (
      ["--gin_file=gin_configs/nowhere.gin", "--benchmark_input"],
      2,
      "error: There is no gin file gin_configs/nowhere.gin.",
    ),
    (
      ["--gin_file=gin_configs/nowhere.gin", "--model_dir=out", "--debug"],
      1,
      "SettingError: There is no gin file",
    ),
  ],
)
def test_what_needs_no_tensorflow_does_not_wait_for_it(arguments, code, said):
  done = run(*arguments)
  assert done.returncode == code
  assert said in done.stdout + done.stderr
  assert ("Traceback" in done.stderr) == ("--debug" in arguments)


def recorded(*arguments):
  """([files, bindings], what the run was given)."""
  return [json.loads(line) for line in run(*arguments, before=RECORD).stdout.splitlines()]


def test_flags_reach_the_run():
  loaded, given = recorded(
    "--gin_file=a.gin",
    "--gin_file=b.gin",
    "--gin_bindings=run.train_steps = 3",
    "--gin_bindings=x.y = [1, 2]",
    "--model_dir=out",
    "--mode=train",
    "--device=cpu:8",
    "--tpu=node",
    "--cluster=slurm",
    "--precision=bfloat16",
    "--compiled=out/compiled",
    "--seed=7",
    "--force",
    "--dry_run",
    "--strict_gin",
    "--benchmark_input",
    "--profile",
  )
  assert loaded == [["a.gin", "b.gin"], ["run.train_steps = 3", "x.y = [1, 2]"]]
  assert given == dict(
    model_dir="out",
    mode="train",
    device="cpu:8",
    tpu="node",
    cluster="slurm",
    precision="bfloat16",
    compiled="out/compiled",
    seed=7,
    force=True,
    dry_run=True,
    strict_gin=True,
    benchmark_input=True,
    profile=True,
  )


def test_defaults_are_those_of_the_run():
  _, given = recorded("--gin_file=a.gin", "--model_dir=out")
  assert given == dataclasses.asdict(experiment.Flags(model_dir="out"))


@pytest.mark.parametrize("mode", experiment.MODES)
def test_every_mode_of_the_run_can_be_asked_for(mode):
  _, given = recorded("--gin_file=a.gin", "--model_dir=out", f"--mode={mode}")
  assert given["mode"] == mode
