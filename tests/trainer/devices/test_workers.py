"""Two worker processes on this machine train as one, and one of them does not wait for ever for
the other.
"""

import json
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.trainer import programs
from trainer.checkpoints import directory


def free_ports(count):
  sockets = [socket.socket() for _ in range(count)]
  for opened in sockets:
    opened.bind(("localhost", 0))
  ports = [str(opened.getsockname()[1]) for opened in sockets]
  for opened in sockets:
    opened.close()
  return ports


def start(workers, model_dir, steps, slow=0):
  ports = ",".join(free_ports(workers))
  environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
  return [
    subprocess.Popen(
      [
        sys.executable,
        "-m",
        "tests.trainer.devices.two_workers",
        str(index),
        ports,
        str(model_dir),
        str(steps),
        str(slow),
      ],
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      env=environment,
    )
    for index in range(workers)
  ]


def results(processes):
  outputs = [process.communicate(timeout=200) for process in processes]
  assert [process.returncode for process in processes] == [0] * len(processes), outputs
  return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def alone(model_dir, steps):
  """The Estimator of one process with the joint batch, trained: this one."""
  estimator = programs.estimator(model_dir, device="cpu", **programs.fixed_loops(5))
  return estimator.train(programs.train_input, max_steps=steps)


def test_two_processes_train_and_evaluate_as_one(tmp_path):
  first, second = results(start(2, tmp_path, 10))
  one = alone(tmp_path / "alone", 10)
  np.testing.assert_allclose(first["w"], one.get_variable_value("w"), atol=1e-5)
  assert first["w"] == second["w"]
  loss = one.evaluate(programs.examples(37))["loss"]
  assert first["loss"] == second["loss"] == pytest.approx(loss, abs=1e-5)
  assert (first["chief"], second["chief"]) == (True, False)
  assert directory.CheckpointDirectory(str(tmp_path)).steps() == [0, 5, 10]


@pytest.mark.long
def test_a_lost_worker_ends_the_other_and_both_go_on_from_the_checkpoint(tmp_path):
  processes = start(2, tmp_path, 10**6, slow=1)
  for line in processes[0].stdout:
    if line == "step 7\n":
      break
  processes[1].send_signal(signal.SIGKILL)
  output, log = processes[0].communicate(timeout=60)  # "within a minute"
  processes[1].communicate()
  assert processes[0].returncode == 75, log
  assert "lost: Worker 0 of 2 lost another one: worker 1 (localhost:" in output
  assert ") has ended. Start all workers" in output
  assert "go on from the newest checkpoint" in output
  reached = directory.CheckpointDirectory(str(tmp_path)).steps()[-1]
  assert reached >= 5
  first, second = results(start(2, tmp_path, reached + 5))
  assert first["w"] == second["w"]
  whole = alone(tmp_path / "whole", reached + 5).get_variable_value("w")
  np.testing.assert_allclose(first["w"], whole, atol=1e-5)
