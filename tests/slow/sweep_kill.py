"""Finds good settings for the digits from bad ones, in a sweep.

SIGKILL ends all of its processes three times on the way.

    python -m tests.slow.sweep_kill --trials=40 --workers=2 --kills=3

In the end every trial has finished exactly once, and no trial finished before a kill has changed.
The best must have a test accuracy of at least 98 %.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from trainer.reporting import metrics_file
from trainer.sweep import report, study

# A network that cannot learn.
BAD = [
  "keras.optimizers.Adam.learning_rate = 1e-7",
  "digits_mlp.model_fn.hidden_units = (2,)",
  "digits_mlp.model_fn.dropout = 0.9",
]
SWEEP_FILE = "gin_configs/sweeps/digits.gin"


def command(sweep_dir, trials, workers, sweep_file=SWEEP_FILE, bindings=BAD):
  """Returns the sweep's command."""
  return [
    sys.executable,
    "-m",
    "trainer.sweep",
    "--gin_file=gin_configs/digits.gin",
    f"--sweep_file={sweep_file}",
    f"--sweep_dir={sweep_dir}",
    f"--trials={trials}",
    f"--workers={workers}",
    "--device=cpu",
    *(f"--gin_bindings={binding}" for binding in bindings),
  ]


def finished(sweep_dir):
  """Returns {number: FrozenTrial} of the finished trials."""
  if not os.path.exists(os.path.join(sweep_dir, "sweep.db")):
    return {}
  try:
    found = report.Report(*study.Study.read(study.url_for(sweep_dir), os.path.basename(sweep_dir)))
  except study.errors.SettingError:  # the study does not exist yet
    return {}
  return {trial.number: trial for trial in found.trials if trial.state.is_finished()}


def starting_accuracy(folder):
  """Returns the bad settings' accuracy after as many steps as a trial has."""
  model_dir = os.path.join(folder, "start")
  subprocess.run(
    [
      sys.executable,
      "-m",
      "trainer.main",
      "--gin_file=gin_configs/digits.gin",
      f"--model_dir={model_dir}",
      "--device=cpu",
      "--gin_bindings=run.train_steps = 600",
      *(f"--gin_bindings={binding}" for binding in BAD),
    ],
    check=True,
    stderr=subprocess.DEVNULL,
  )
  return next(
    line["accuracy"] for line in reversed(metrics_file.read(model_dir)) if line["kind"] == "eval"
  )


def children(pid):
  """Returns a process's children and grandchildren."""
  found = subprocess.run(
    ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True
  ).stdout.split()
  return [each for child in map(int, found) for each in (child, *children(child))]


def kill_when(process, sweep_dir, count, delay):
  """Kills a sweep and its processes, `delay` seconds after a number of finished trials.

  Returns whether the sweep was still running.
  """
  while process.poll() is None and len(finished(sweep_dir)) < count:
    time.sleep(0.5)
  time.sleep(delay)
  if process.poll() is not None:
    return False
  for pid in (process.pid, *children(process.pid)):
    with contextlib.suppress(ProcessLookupError):  # it ended with its parent
      os.kill(pid, signal.SIGKILL)
  process.wait()
  return True


def run(folder, trials, workers, kills, seed=0):
  """Runs and kills; returns the report.Report."""
  sweep_dir = os.path.join(folder, "digits")
  randomness = random.Random(seed)
  before = {}
  for number in range(kills):
    process = subprocess.Popen(command(sweep_dir, trials, workers))
    count = trials * (number + 1) // (kills + 1)
    assert kill_when(process, sweep_dir, count, randomness.uniform(0, 3)), (
      "The sweep ended before it was killed."
    )
    now = finished(sweep_dir)
    _check_unchanged(before, now)
    before = now
    print(f"kill {number + 1}/{kills} with {len(now)} of {trials} trials finished", flush=True)
  subprocess.run(command(sweep_dir, trials, workers), check=True)
  now = finished(sweep_dir)
  _check_unchanged(before, now)
  assert sorted(now) == list(range(trials)), sorted(now)
  found = report.Report(*study.Study.read(study.url_for(sweep_dir), "digits"))
  assert len(found.trials) == trials
  assert sorted(map(int, os.listdir(os.path.join(sweep_dir, "trials")))) == list(range(trials))
  return found


def _check_unchanged(before, now):
  """Requires that trials finished before a kill are unchanged."""
  for number, trial in before.items():
    assert now[number] == trial, f"Trial {number} was finished, and changed after a kill."


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--trials", type=int, default=40)
  parser.add_argument("--workers", type=int, default=2)
  parser.add_argument("--kills", type=int, default=3)
  arguments = parser.parse_args()
  start = time.monotonic()
  with tempfile.TemporaryDirectory() as folder:
    bad = starting_accuracy(folder)
    found = run(folder, arguments.trials, arguments.workers, arguments.kills)
    (best,) = found.best()
    print(f"{found.counts()} after {arguments.kills} kills, in {time.monotonic() - start:.0f} s")
    print(
      f"Accuracy from {bad:.2%} to {best.value:.2%}, by trial {best.number}: {found.texts(best)}"
    )
    assert best.value >= 0.98, best.value


if __name__ == "__main__":
  main()
