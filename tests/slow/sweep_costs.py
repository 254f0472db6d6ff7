"""Measures what a sweep costs and saves.

It prints the steps that ASHA saves, and the time from a trial's start to its first step, compared
with `python -m trainer.main`.

Example:
    python -m tests.slow.sweep_costs asha --trials=40 --workers=2
    python -m tests.slow.sweep_costs overhead --rounds=3
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from tests.slow import sweep_kill
from trainer.reporting import metrics_file
from trainer.sweep import report, study

_SAME_TRIALS = "include 'gin_configs/sweeps/digits.gin'\nsweep.sampler = 'random'\nsweep.pruner = "
_ASHA = (
  _SAME_TRIALS + "'asha'\nsweep.pruner_options = {'min_resource': 100, 'reduction_factor': 4}\n"
)
_NONE = _SAME_TRIALS + "'none'\nsweep.pruner_options = {}\n"

_ONE_STEP = """
sweep.metric = 'accuracy'
sweep.mode = 'max'
sweep.space = {'run.eval_steps': [1], 'RunConfig.tf_random_seed': [1, 2, 3, 4]}
sweep.bindings = {'run.train_steps': 1, 'RunConfig.save_summary_steps': 1}
"""


def sweep(folder, name, text, trials, workers):
  """Returns the report.Report of a digits sweep with this sweep file."""
  path, sweep_dir = os.path.join(folder, f"{name}.gin"), os.path.join(folder, name)
  with open(path, "w") as file:
    file.write(text)
  subprocess.run(sweep_kill.command(sweep_dir, trials, workers, path, []), check=True)
  return report.Report(*study.Study.read(study.url_for(sweep_dir), name))


def asha(folder, trials, workers):
  """Runs the same trials with and without ASHA."""
  found = {
    name: sweep(folder, name, text, trials, workers)
    for name, text in (("none", _NONE), ("asha", _ASHA))
  }
  steps = {
    name: sum(trial.user_attrs["steps"] for trial in each.trials) for name, each in found.items()
  }
  best = {name: each.best()[0] for name, each in found.items()}
  for name, each in found.items():
    print(
      f"{name}: {each.counts()}, {steps[name]} steps, best accuracy {best[name].value:.2%} "
      f"(trial {best[name].number})"
    )
  share = steps["asha"] / steps["none"]
  # One standard deviation of an accuracy over 360 images.
  noise = (best["none"].value * (1 - best["none"].value) / 360) ** 0.5
  print(
    f"ASHA took {share:.0%} of the steps; the best differ by "
    f"{best['none'].value - best['asha'].value:.2%}, of a noise of {noise:.2%}."
  )
  assert share <= 0.5
  assert best["none"].value - best["asha"].value <= noise


def overhead(folder, rounds):
  """Runs single trials by hand and in sweeps, in turn."""
  by_hand, in_sweep = [], []
  for number in range(rounds):
    model_dir = os.path.join(folder, f"hand{number}")
    start = time.time()
    subprocess.run(
      [
        sys.executable,
        "-m",
        "trainer.main",
        "--gin_file=gin_configs/digits.gin",
        f"--model_dir={model_dir}",
        "--device=cpu",
        "--gin_bindings=run.train_steps = 1",
        "--gin_bindings=RunConfig.save_summary_steps = 1",
        "--gin_bindings=run.eval_steps = 1",
      ],
      check=True,
      stderr=subprocess.DEVNULL,
      env=dict(os.environ, OMP_NUM_THREADS="2"),
    )
    by_hand.append(_first_step(model_dir) - start)
    found = sweep(folder, f"sweep{number}", _ONE_STEP, 4, 1)
    for trial in found.trials:
      in_sweep.append(
        _first_step(os.path.join(folder, f"sweep{number}", "trials", str(trial.number)))
        - trial.datetime_start.timestamp()
      )
    print(
      f"round {number}: by hand {by_hand[-1]:.2f} s, trials "
      f"{', '.join(f'{seconds:.2f}' for seconds in in_sweep[-4:])} s",
      flush=True,
    )
  middle = [statistics.median(seconds) for seconds in (in_sweep, by_hand)]
  print(
    f"From its start to its first step, a trial takes {middle[0]:.2f} s, a run by hand "
    f"{middle[1]:.2f} s: {middle[0] / middle[1]:.0%} (medians)"
  )
  assert middle[0] <= 0.5 * middle[1]


def _first_step(model_dir):
  return next(line["time"] for line in metrics_file.read(model_dir) if line["kind"] == "train")


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("what", choices=["asha", "overhead"])
  parser.add_argument("--trials", type=int, default=40)
  parser.add_argument("--workers", type=int, default=2)
  parser.add_argument("--rounds", type=int, default=3)
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    if arguments.what == "asha":
      asha(folder, arguments.trials, arguments.workers)
    else:
      overhead(folder, arguments.rounds)


if __name__ == "__main__":
  main()
