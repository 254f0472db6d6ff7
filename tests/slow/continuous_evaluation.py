"""Kills a trainer on the digits with SIGKILL and restarts it, beside a continuous evaluator.

Trainer and evaluator are two processes.

    python -m tests.slow.continuous_evaluation --kills=2

The evaluator must evaluate each kept checkpoint once, and both processes must end by themselves.
"""

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time

from trainer.checkpoints import directory
from trainer.reporting import metrics_file


def start(model_dir, mode, steps, log):
  return subprocess.Popen(
    [
      sys.executable,
      "-m",
      "trainer.main",
      "--gin_file=gin_configs/digits.gin",
      f"--model_dir={model_dir}",
      f"--mode={mode}",
      f"--gin_bindings=run.train_steps = {steps}",
      "--gin_bindings=RunConfig.save_checkpoints_steps = 200",
      "--gin_bindings=RunConfig.keep_checkpoint_max = 0",
    ],
    stdout=log,
    stderr=subprocess.STDOUT,
  )


def newest(model_dir):
  return max(directory.CheckpointDirectory(model_dir).steps(), default=0)


def run(kills, steps, poll=0.2):
  """Returns a counter of evaluations by step."""
  with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w+") as log:
    model_dir = os.path.join(folder, "run")
    evaluator = start(model_dir, "continuous_eval", steps, log)
    try:
      for kill in range(kills):
        trainer = start(model_dir, "train", steps, log)
        wanted = (kill + 1) * steps // (kills + 1)
        while newest(model_dir) < wanted and trainer.poll() is None:
          time.sleep(poll)
        trainer.kill()
        trainer.wait()
        print(
          f"kill {kill + 1}/{kills} with the newest checkpoint at step {newest(model_dir)}",
          flush=True,
        )
      trainer = start(model_dir, "train", steps, log)
      codes = trainer.wait(timeout=1200), evaluator.wait(timeout=1200)
    finally:
      evaluator.kill()
    log.seek(0)
    assert codes == (0, 0), f"exit codes {codes}:\n{log.read()[-3000:]}"
    # Read the raw file: metrics_file.read would hide duplicates.
    with open(os.path.join(model_dir, metrics_file.NAME)) as file:
      evaluated = collections.Counter(
        int(line.split('"step": ')[1].split(",")[0]) for line in file if '"kind": "eval"' in line
      )
    kept = [step for step in directory.CheckpointDirectory(model_dir).steps() if step]
    assert evaluated == dict.fromkeys(kept, 1), (
      f"kept {kept}, evaluated {sorted(evaluated.items())}"
    )
    return evaluated


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--kills", type=int, default=2)
  parser.add_argument("--steps", type=int, default=4000)
  arguments = parser.parse_args()
  evaluated = run(arguments.kills, arguments.steps)
  print(
    f"{arguments.kills} kills: {len(evaluated)} checkpoints, each evaluated once; both "
    "processes ended by themselves."
  )


if __name__ == "__main__":
  main()
