"""Kills a training process with SIGKILL at random moments, starts it again each time, and compares
it with one that was left alone.

    python -m tests.slow.kill_and_resume --kills=20 --device=cpu
    python -m tests.slow.kill_and_resume --kills=5 --device=cpu:8 --steps_per_program=20

The moments fall into all that the process does: it starts, steps, saves, evaluates, exports. In the
end every variable of the last checkpoint and every loss that was logged must be those of the
undisturbed run, to the bit. With --steps_per_program the training and its evaluations run as on a
TPU: many steps are one program.
"""

import argparse
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

from trainer.checkpoints import directory as checkpoint
from trainer.checkpoints import reader


def command(model_dir, device, steps, steps_per_program):
  """The training that is killed: digits, with a checkpoint and an evaluation every 100 steps,
  which is also when losses are logged.
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
    # A logged loss is a mean of the loops' means: its last bit depends on where the loops are
    # cut, which else is a matter of time.
    "--gin_bindings=TPUConfig.iterations_per_loop = 50",
    "--gin_bindings=run.train_batch_size = 64",
    "--gin_bindings=run.eval_batch_size = 64",
    f"--gin_bindings=TPUConfig.steps_per_program = {steps_per_program}",
  ]


def run(model_dir, device, steps, steps_per_program, kill_after=None):
  """Runs it, to its end or until it is killed after so many seconds; returns whether it ended
  by itself.
  """
  process = subprocess.Popen(
    command(model_dir, device, steps, steps_per_program),
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
  )
  try:
    _, log = process.communicate(timeout=kill_after)
  except subprocess.TimeoutExpired:
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return False
  if process.returncode:
    raise RuntimeError(
      f"The training failed by itself with exit code {process.returncode}:\n{log[-3000:]}"
    )
  return True


def losses(directory):
  """dict of step → loss in a folder's TensorBoard files.

  A step that was logged again after a restart must have the same loss.
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
      continue  # the last record of a process that was killed while it wrote
  return found


def values(model_dir):
  path = checkpoint.CheckpointDirectory(model_dir).latest()
  return reader.read(path, list(reader.shapes(path)))


def compare(kills, device, steps, steps_per_program=None, seed=0, clock=time.monotonic):
  """Kills and compares; returns (kills, moments) where moments tells how many checkpoints there
  were at each kill.
  """
  randomness = random.Random(seed)
  with tempfile.TemporaryDirectory() as folder:
    alone, killed = os.path.join(folder, "alone"), os.path.join(folder, "killed")
    start = clock()
    run(alone, device, steps, steps_per_program)
    whole = clock() - start
    done, moments = 0, []
    while done < kills:
      # Sometimes early, mostly while something is written; a run that came to its end starts over
      # with more to do than is left of it.
      seconds = randomness.uniform(0.3, 1.05) * whole
      if run(killed, device, steps, steps_per_program, kill_after=seconds):
        subprocess.run(["rm", "-rf", killed], check=True)
        continue
      done += 1
      moments.append(max(checkpoint.CheckpointDirectory(killed).steps(), default=-1))
      print(f"kill {done}/{kills} with the newest checkpoint at step {moments[-1]}", flush=True)
    run(killed, device, steps, steps_per_program)
    expected, found = values(alone), values(killed)
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
  arguments = parser.parse_args()
  done, moments = compare(
    arguments.kills, arguments.device, arguments.steps, arguments.steps_per_program
  )
  print(
    f"{done} kills on {arguments.device}, at {len(set(moments))} different checkpoints: "
    "weights and logged losses are those of the undisturbed "
    "run."
  )


if __name__ == "__main__":
  main()
