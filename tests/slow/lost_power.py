"""Removes one of three machines from a training without a word, as a loss of power does.

Measures how long the others take to end.

    python -m tests.slow.lost_power --device=xla:2

The machines are network namespaces of this machine, on their own switch; the test pulls the
victim's cable. Killing or stopping a process is not enough: its kernel still answers. Needs Linux
and root.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from trainer import errors
from trainer.checkpoints import directory

_LIMIT_SECONDS = 15
_SURE_SECONDS = 300  # workers that take longer without training hang
_PORT = 8470
_SWITCH = "octet-switch"


@contextlib.contextmanager
def network(count):
  """Makes the machines; yields their names. Addresses start at 10.9.0.1."""
  names = [f"octet{number}" for number in range(count)]
  try:
    _ip("netns", "add", _SWITCH)
    _ip("-n", _SWITCH, "link", "add", "bridge", "type", "bridge")
    _ip("-n", _SWITCH, "link", "set", "bridge", "up")
    for number, name in enumerate(names):
      _ip("netns", "add", name)
      _ip("link", "add", "cable", "netns", name, "type", "veth", "peer", name, "netns", _SWITCH)
      _ip("-n", _SWITCH, "link", "set", name, "master", "bridge", "up")
      _ip("-n", name, "addr", "add", f"10.9.0.{number + 1}/24", "dev", "cable")
      _ip("-n", name, "link", "set", "cable", "up")
      _ip("-n", name, "link", "set", "lo", "up")
      # `ip netns exec` shows this file as /etc/hosts: jax looks its own machine up by name.
      hosts = pathlib.Path("/etc/netns", name, "hosts")
      hosts.parent.mkdir(parents=True, exist_ok=True)
      hosts.write_text(f"127.0.0.1 localhost\n10.9.0.{number + 1} {name}\n")
    yield names
  finally:
    for name in (*names, _SWITCH):
      subprocess.run(["ip", "netns", "del", name], check=False)
      hosts = pathlib.Path("/etc/netns", name, "hosts")
      if hosts.exists():
        hosts.unlink()
        hosts.parent.rmdir()


def _ip(*words):
  subprocess.run(["ip", *words], check=True)


def start(names, folder, device):
  """Starts a worker on each machine; returns the processes."""
  addresses = [f"10.9.0.{number + 1}:{_PORT}" for number in range(len(names))]
  bindings = [
    "run.train_steps = 1000000",
    "run.train_batch_size = 96",
    "run.eval_batch_size = 96",
    "RunConfig.save_checkpoints_steps = 50",
    "TPUConfig.iterations_per_loop = 5",
  ]
  processes = []
  for number, name in enumerate(names):
    task = {"type": "worker", "index": number}
    config = json.dumps({"cluster": {"worker": addresses}, "task": task})
    train = [sys.executable, "-m", "trainer.main", "--gin_file=gin_configs/digits.gin"]
    train += [f"--model_dir={folder}/model", f"--device={device}"]
    train += [f"--gin_bindings={binding}" for binding in bindings]
    named = ["unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh"]
    with open(f"{folder}/{name}.log", "wb") as log:
      processes.append(
        subprocess.Popen(
          ["ip", "netns", "exec", name, *named, *train],
          env={**os.environ, "TF_CONFIG": config},
          stdout=log,
          stderr=log,
        )
      )
  return processes


def lose(names, victim, folder, device):
  """Trains until a checkpoint exists, and removes a machine; returns the others' seconds."""
  processes = start(names, folder, device)
  try:
    began = time.monotonic()
    while not directory.CheckpointDirectory(f"{folder}/model").steps():
      codes = [each.poll() for each in processes]
      assert not any(code is not None for code in codes), f"ended by themselves: {codes}"
      assert time.monotonic() - began < _SURE_SECONDS, "no checkpoint"
      time.sleep(0.1)
    _ip("-n", _SWITCH, "link", "set", names[victim], "down")
    lost, seconds = time.monotonic(), {}
    while len(seconds) < len(names) - 1:
      for number, process in enumerate(processes):
        if number not in (victim, *seconds) and process.poll() is not None:
          assert process.returncode == errors.TRY_AGAIN, process.returncode
          seconds[number] = time.monotonic() - lost
      assert time.monotonic() - lost < _SURE_SECONDS, "the others have not ended"
      time.sleep(0.05)
    return list(seconds.values())
  finally:
    for process in processes:
      process.kill()
      process.wait()
    _ip("-n", _SWITCH, "link", "set", names[victim], "up")


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--device", default="xla:2")
  parser.add_argument("--workers", type=int, default=3)
  arguments = parser.parse_args()
  longest = 0.0
  with network(arguments.workers) as names:
    for victim in (0, arguments.workers - 1):
      with tempfile.TemporaryDirectory() as folder:
        seconds = lose(names, victim, folder, arguments.device)
      longest = max(longest, *seconds)
      told = ", ".join(f"{each:.1f}" for each in seconds)
      print(f"worker {victim} lost its power: the others ended after {told} s", flush=True)
  assert longest <= _LIMIT_SECONDS, longest


if __name__ == "__main__":
  main()
