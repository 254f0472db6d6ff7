"""Kills a training process with SIGKILL at random moments, and compares it with an undisturbed one.

Restarts the process after each kill.

    python -m tests.slow.kill_and_resume --kills=20 --device=cpu
    python -m tests.slow.kill_and_resume --kills=5 --device=xla:8 --steps_per_program=20

The moments hit everything that the process does: it starts, steps, saves, evaluates, exports. In
the end, every variable of the last checkpoint and every logged loss must equal the undisturbed
run's, to the bit. For XLA devices, --steps_per_program sets the steps of one program.

By default the moments come from the clock, within the time of an undisturbed run. On a busy machine
the clock says little: --by_checkpoints draws a checkpoint instead, and kills up to two seconds
after it appears.
"""

import argparse
import functools
import operator
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.python.summary import summary_iterator

from tests.slow import checkpoint_values
from trainer.checkpoints import directory as checkpoint


def command(model_dir, device, steps, steps_per_program):
  """Returns the command of the training to kill.

  It trains the digits, with a checkpoint, an evaluation and a logged loss every 100 steps.
  """
  return [
    sys.executable,
    "-m",
    "trainer.main",
    "--gin_file=gin_configs/digits.gin",
    f"--model_dir={model_dir}",
    f"--device={device}",
    f"--gin_bindings=run.train_steps = {steps}",
    "--gin_bindings=RunConfig.save_checkpoints_steps = 100",
    # A logged loss is a mean of the loops' means: its last bit depends on the ends of the loops,
    # which would otherwise depend on time.
    "--gin_bindings=TPUConfig.iterations_per_loop = 50",
    "--gin_bindings=run.train_batch_size = 64",
    "--gin_bindings=run.eval_batch_size = 64",
    f"--gin_bindings=TPUConfig.steps_per_program = {steps_per_program}",
  ]


def run(model_dir, device, steps, steps_per_program, is_time=lambda seconds: False):
  """Runs the training to its end, or kills it when `is_time` returns True.

  `is_time` is a function of the seconds so far. Returns whether the training ended by itself.
  """
  start = time.monotonic()
  with tempfile.TemporaryFile("w+") as log:
    process = subprocess.Popen(
      command(model_dir, device, steps, steps_per_program), stdout=subprocess.DEVNULL, stderr=log
    )
    while process.poll() is None:
      if is_time(time.monotonic() - start):
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False
      time.sleep(0.02)
    if process.returncode:
      log.seek(0)
      raise RuntimeError(
        f"The training failed by itself with exit code {process.returncode}:\n{log.read()[-3000:]}"
      )
  return True


def newest(model_dir):
  """Returns the newest checkpoint's step, or -1."""
  return max(checkpoint.CheckpointDirectory(model_dir).steps(), default=-1)


def after_checkpoint(model_dir, step, delay, clock=time.monotonic):
  """Returns an `is_time`: a delay in seconds after the first checkpoint from this step on."""
  there_at = None

  def is_time(seconds):
    nonlocal there_at
    if there_at is None and newest(model_dir) >= step:
      there_at = clock()
    return there_at is not None and clock() - there_at >= delay

  return is_time


def losses(directory):
  """Returns a dict of step → loss from a folder's TensorBoard files.

  If a restart logs a step again, the loss must be the same.
  """
  found = {}
  for path in sorted(tf.io.gfile.glob(os.path.join(directory, "events.*"))):
    try:
      for event in summary_iterator.summary_iterator(path):
        for value in event.summary.value:
          if value.tag == "loss":
            loss = float(tf.make_ndarray(value.tensor))
            if found.setdefault(event.step, loss) != loss:
              raise AssertionError(
                f"Step {event.step} was logged with the losses {found[event.step]!r} and {loss!r}."
              )
    except tf.errors.DataLossError:
      continue  # the process died while it wrote its last record
  return found


def compare(
  kills, device, steps, steps_per_program=None, by_checkpoints=False, seed=0, clock=time.monotonic
):
  """Kills and compares; returns (kills, moments), moments as newest checkpoints at the kills."""
  randomness = random.Random(seed)
  with tempfile.TemporaryDirectory() as folder:
    alone, killed = os.path.join(folder, "alone"), os.path.join(folder, "killed")
    start = clock()
    run(alone, device, steps, steps_per_program)
    whole = clock() - start
    done, moments = 0, []
    while done < kills:
      if by_checkpoints:
        wanted = max(newest(killed), 0) + 100 * randomness.randint(0, 2)
        is_time = after_checkpoint(killed, min(wanted, steps), randomness.uniform(0, 2))
      else:
        # Sometimes early, mostly during a write.
        seconds = randomness.uniform(0.3, 1.05) * whole
        is_time = functools.partial(operator.le, seconds)
      if run(killed, device, steps, steps_per_program, is_time):
        # The training ended: start over, because it has too little left to do.
        subprocess.run(["rm", "-rf", killed], check=True)
        continue
      done += 1
      moments.append(newest(killed))
      print(f"kill {done}/{kills} with the newest checkpoint at step {moments[-1]}", flush=True)
    run(killed, device, steps, steps_per_program)
    expected, found = checkpoint_values.newest(alone), checkpoint_values.newest(killed)
    assert expected.keys() == found.keys(), expected.keys() ^ found.keys()
    for name, value in expected.items():
      np.testing.assert_array_equal(found[name], value, err_msg=name)
    for name in ("", "eval"):
      assert (
        losses(os.path.join(killed, name)).items() <= losses(os.path.join(alone, name)).items()
      ), name
  return done, moments


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--kills", type=int, default=20)
  parser.add_argument("--device", default="cpu")
  parser.add_argument("--steps", type=int, default=3000)
  parser.add_argument("--steps_per_program", type=int)
  parser.add_argument("--by_checkpoints", action="store_true")
  arguments = parser.parse_args()
  done, moments = compare(
    arguments.kills,
    arguments.device,
    arguments.steps,
    arguments.steps_per_program,
    arguments.by_checkpoints,
  )
  print(
    f"{done} kills on {arguments.device}, at {len(set(moments))} different checkpoints: "
    "weights and logged losses are those of the undisturbed "
    "run."
  )


if __name__ == "__main__":
  main()
