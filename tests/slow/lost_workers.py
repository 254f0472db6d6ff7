"""Trains on four worker processes of this machine and kills one with SIGKILL at random moments.

Compares the weights with those of undisturbed workers.

    python -m tests.slow.lost_workers --kills=20
    python -m tests.slow.lost_workers --kills=10 --workers=2 --by_checkpoints

All must come to the same bits. With --by_checkpoints, each kill comes a moment after a new
checkpoint: slowly starting workers would otherwise rarely be in a step.

As Kubernetes and Slurm do, the test restarts each process as soon as it was killed or ends with
exit code 75, independent of the others. The moments hit everything that workers do: they start,
wait for each other, connect, step, save, evaluate. Any other exit code is a failure of the test.
"""

import argparse
import atexit
import json
import multiprocessing
import os
import random
import runpy
import signal
import socket
import statistics
import sys
import tempfile
import time

import numpy as np

from tests.slow import checkpoint_values
from trainer import errors
from trainer.checkpoints import directory

# Workers are forks of a process with all imports, which saves most of their start.
_FORKS = multiprocessing.get_context("forkserver")
_IMPORTS = ["keras", "sklearn.datasets", "trainer.experiment"]

_SURE_SECONDS = 300  # workers that take longer to end hang


def free_ports(count):
  """Returns different free ports."""
  sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
  ports = [each.getsockname()[1] for each in sockets]
  for each in sockets:
    each.close()
  return ports


def _work(arguments, tf_config, log):
  """Runs a worker's command with these arguments."""
  with open(log, "ab", buffering=0) as file:
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
  os.environ["TF_CONFIG"] = tf_config
  sys.argv = arguments
  try:
    runpy.run_module("trainer.main", run_name="__main__")
  finally:
    atexit._run_exitfuncs()  # the end of Python does this, the end of a fork does not


class Workers:
  """The processes of one training. Restarts each until it ends.

  Args:
    folder: for the model_dir and the logs.
    count: the number of processes; the first one is the chief.
    steps: the training's steps.
    device: each worker's device.
  """

  def __init__(self, folder, count, steps, device):
    self.model_dir = os.path.join(folder, "model")
    self._folder, self._steps, self._device = folder, steps, device
    ports = free_ports(count)
    self._addresses = [f"localhost:{port}" for port in ports]
    self._done = set()
    self._processes = {}
    for number in range(count):
      self._start(number)

  def _start(self, number):
    task = {"type": "worker", "index": number}
    config = {"cluster": {"worker": self._addresses}, "task": task}
    bindings = [
      f"run.train_steps = {self._steps}",
      "run.train_batch_size = 64",
      "run.eval_batch_size = 64",
      "RunConfig.save_checkpoints_steps = 15",
      "run.exporters = []",
      "TPUConfig.iterations_per_loop = 5",
    ]
    arguments = [
      "trainer.main",
      "--gin_file=gin_configs/digits.gin",
      f"--model_dir={self.model_dir}",
      f"--device={self._device}",
      *(f"--gin_bindings={binding}" for binding in bindings),
    ]
    self._processes[number] = _FORKS.Process(
      target=_work, args=(arguments, json.dumps(config), self._log(number))
    )
    self._processes[number].start()

  def _log(self, number):
    return os.path.join(self._folder, f"worker-{number}.log")

  def log(self, number):
    """Returns the end of a worker's output."""
    with open(self._log(number), errors="replace") as file:
      return file.read()[-3000:]

  def follow(self):
    """Restarts processes where needed; returns (numbers of ended workers, whether all are done)."""
    restarted = []
    for number, process in self._processes.items():
      code = process.exitcode
      if code is None or number in self._done:
        continue
      if code == 0:
        self._done.add(number)
      elif code in (errors.TRY_AGAIN, -signal.SIGKILL):
        self._start(number)
        restarted.append(number)
      else:
        raise AssertionError(f"Worker {number} ended with {code}:\n{self.log(number)}")
    return restarted, len(self._done) == len(self._processes)

  def kill(self, number):
    """Kills a worker; returns its last log line, or None if it had ended."""
    if self._processes[number].exitcode is not None:
      return None
    with open(self._log(number), errors="replace") as log:
      lines = [line.strip() for line in log if line[2:3] == ":" == line[5:6]] or ["(nothing)"]
    self._processes[number].kill()
    return lines[-1]

  def newest_step(self):
    """Returns the newest checkpoint's step; -1 without one."""
    return max(directory.CheckpointDirectory(self.model_dir).steps(), default=-1)

  def close(self):
    """Kills all running processes."""
    for process in self._processes.values():
      process.kill()
      process.join()


def undisturbed(folder, count, steps, device):
  """Trains without a kill; returns (values, seconds)."""
  start = time.monotonic()
  workers = Workers(folder, count, steps, device)
  try:
    while True:
      restarted, done = workers.follow()
      assert not restarted, f"ended by itself: {workers.log(restarted[0])}"
      if done:
        return checkpoint_values.newest(workers.model_dir), time.monotonic() - start
      assert time.monotonic() - start < _SURE_SECONDS
      time.sleep(0.1)
  finally:
    workers.close()


def compare(expected, found):
  """Returns the greatest difference of two trainings' values; AssertionError if names differ."""
  assert expected.keys() == found.keys(), expected.keys() ^ found.keys()
  return max(
    float(np.max(np.abs(np.subtract(found[name], value, dtype=np.float64)), initial=0))
    for name, value in expected.items()
    if np.issubdtype(value.dtype, np.number)
  )


class Record:
  """The observations: kills, and the trainings that ended between them."""

  def __init__(self):
    self.victims, self.moments, self.ended, self.differences = [], [], [], []


def disturbed(folder, count, steps, device, kills, whole, expected, seed, by_checkpoints):
  """Kills workers until the number of kills, and trains to the end; returns the Record."""
  randomness, record, number = random.Random(seed), Record(), 0
  while len(record.victims) < kills or not record.differences:
    number += 1
    place = os.path.join(folder, f"disturbed{number}")
    os.mkdir(place)
    workers = Workers(place, count, steps, device)
    try:
      _disturb(workers, count, kills, whole, record, randomness, by_checkpoints)
      difference = compare(expected, checkpoint_values.newest(workers.model_dir))
    finally:
      workers.close()
    record.differences.append(difference)
    print(
      f"a training came to its end, after {len(record.victims)} kills; its weights differ by "
      f"{difference:.1e}",
      flush=True,
    )
  return record


def _disturb(workers, count, kills, whole, record, randomness, by_checkpoints):
  """Lets workers reach their end, and kills one again and again after a random time."""
  newest, waiting = workers.newest_step(), set()  # the workers that must end after a kill
  changed = killed = time.monotonic()
  wait = 0 if by_checkpoints else 0.7 * whole
  next_kill = changed + randomness.uniform(0, wait)
  while True:
    restarted, done = workers.follow()
    now = time.monotonic()
    if restarted:
      changed = now
    for each in restarted:
      waiting.discard(each)
      if not waiting and killed is not None:
        record.ended.append(now - killed)
        killed, next_kill = None, now + randomness.uniform(0, wait)
    if done:
      return
    assert now - changed < _SURE_SECONDS, f"no worker of {waiting} has ended"
    is_new = not by_checkpoints or workers.newest_step() > newest
    if not waiting and len(record.victims) < kills and now > next_kill and is_new:
      time.sleep(randomness.uniform(0, 2) if by_checkpoints else 0)
      newest = workers.newest_step()
      victim = randomness.randrange(count)
      moment = workers.kill(victim)
      next_kill = now + randomness.uniform(0, wait)
      if moment is not None:
        record.victims.append(victim)
        record.moments.append(moment)
        waiting, killed, changed = set(range(count)), now, now
        print(
          f"kill {len(record.victims)}/{kills}: worker {victim}, newest checkpoint "
          f"{workers.newest_step()}, its last word: {moment[:110]}",
          flush=True,
        )
    time.sleep(0.05)


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--kills", type=int, default=20)
  parser.add_argument("--workers", type=int, default=4)
  parser.add_argument("--steps", type=int, default=60)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--device", default="xla:2")
  parser.add_argument("--by_checkpoints", action="store_true")
  arguments = parser.parse_args()
  # BLAS's threads would not survive a fork.
  os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", OPENBLAS_NUM_THREADS="1")
  _FORKS.set_forkserver_preload(_IMPORTS)
  first = _FORKS.Process(target=str)  # wait for the imports, to leave them out of the times
  first.start()
  first.join()
  count, steps, device = arguments.workers, arguments.steps, arguments.device
  with tempfile.TemporaryDirectory() as folder:
    os.mkdir(os.path.join(folder, "alone"))
    expected, whole = undisturbed(os.path.join(folder, "alone"), count, steps, device)
    print(f"{count} workers ({device}), {steps} steps, undisturbed in {whole:.0f} s", flush=True)
    record = disturbed(
      folder,
      count,
      steps,
      device,
      arguments.kills,
      whole,
      expected,
      arguments.seed,
      arguments.by_checkpoints,
    )
  worst = max(record.differences)
  print(
    f"{len(record.victims)} kills ({record.victims.count(0)} of the chief): all other workers had "
    f"ended within {max(record.ended):.0f} s (median {statistics.median(record.ended):.0f} s). "
    f"Weights at the end of {len(record.differences)} trainings differ by {worst:.1e} at most."
  )
  assert worst == 0


if __name__ == "__main__":
  main()
