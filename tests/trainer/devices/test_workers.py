"""Two worker processes on this machine train as one, and one of them does not wait for ever for
the other.
"""

import json
import os
import re
import signal
import socket
import time

import numpy as np
import pytest

from tests import warm
from tests.trainer.devices import two_workers
from trainer import testing
from trainer.checkpoints import directory, reader

pytest.importorskip("jax")


def free_ports(count):
  sockets = [socket.socket() for _ in range(count)]
  for opened in sockets:
    opened.bind(("localhost", 0))
  ports = [str(opened.getsockname()[1]) for opened in sockets]
  for opened in sockets:
    opened.close()
  return ports


def start(workers, model_dir, steps, variant="", device="xla:4"):
  ports = ",".join(free_ports(workers))
  environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
  return [
    warm.start(
      *("-m", "tests.trainer.devices.two_workers", index, ports, model_dir, device, steps, variant),
      env=environment,
    )
    for index in range(workers)
  ]


def results(processes):
  outputs = [process.communicate(timeout=200) for process in processes]
  assert [process.returncode for process in processes] == [0] * len(processes), outputs
  return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def alone(model_dir, steps, variant):
  """(estimator, eval input_fn) of one process with the joint batch, trained: this one."""
  estimator, train_input, eval_input = two_workers.made(model_dir, "xla:8", variant)
  return estimator.train(train_input, max_steps=steps), eval_input


def check(found, model_dir, tolerance=1e-6, steps=10, variant=""):
  """Checks that processes have done what one does that has a device of its own."""
  one, eval_input = alone(model_dir / "alone", steps, variant)
  saved = {name: one.get_variable_value(name) for name in one.get_variable_names()}
  path = directory.CheckpointDirectory(str(model_dir)).latest_valid()
  testing.assert_same_values(reader.read(path, list(saved)), saved, tolerance=tolerance)
  evaluation = one.evaluate(eval_input)
  for each in found:
    assert each["values"] == found[0]["values"]
    assert each["evaluation"] == found[0]["evaluation"]
  assert found[0]["evaluation"] == pytest.approx(evaluation, rel=tolerance, abs=tolerance)
  assert [each["chief"] for each in found] == [True] + [False] * (len(found) - 1)
  return one, eval_input


@pytest.mark.parametrize("hosts", [2, pytest.param(4, marks=pytest.mark.long)])
def test_hosts_of_xla_devices_train_evaluate_and_predict_as_one(tmp_path, hosts):
  """With statistics that are each core's own, and with partial batches."""
  found = results(start(hosts, tmp_path, 10, device=f"xla:{8 // hosts}"))
  one, eval_input = check(found, tmp_path)
  predictions = [each["logits"] for each in one.predict(eval_input)]
  for each in found:
    np.testing.assert_allclose(each["predictions"], predictions, atol=1e-6)


@pytest.mark.long
def test_hosts_change_in_number_between_restarts(tmp_path):
  """Each example is read once: the values are those of a process that does not end meanwhile."""
  for hosts, steps in ((2, 5), (1, 10), (2, 15)):
    found = results(start(hosts, tmp_path, steps, device=f"xla:{8 // hosts}"))
  check(found, tmp_path, steps=15)


@pytest.mark.long
def test_xla_hosts_roll_back_together_from_non_finite_values(tmp_path, caplog):
  found = results(start(2, tmp_path, 10, two_workers.NAN))
  with caplog.at_level("WARNING", logger="absl"):
    check(found, tmp_path, variant=two_workers.NAN)
  assert "Going back to step 5" in caplog.text


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 1])
def test_lost_worker_ends_the_other_and_both_resume(tmp_path, victim):
  processes = start(2, tmp_path, 10**6, two_workers.SLOW)
  for line in processes[0].stdout:
    if line == "step 7\n":
      break
  processes[victim].send_signal(signal.SIGKILL)
  killed = time.monotonic()
  other = processes[1 - victim]
  output, log = other.communicate(timeout=60)  # "within a minute"
  assert time.monotonic() - killed < 15
  processes[victim].communicate()
  assert other.returncode == 75, log
  who = f"worker {victim} (localhost:"
  # By itself, or by the link where the main thread waits for the worker that is gone.
  if "lost: " in output:
    assert f"lost: Worker {1 - victim} of 2 lost another worker: {who}" in output
    assert re.search(r"\) (has ended|does not answer any more \(.*\))\. Start all workers", output)
    assert "resume from the newest checkpoint" in output
  else:
    assert f"error: W{who[1:]}" in log
  reached = directory.CheckpointDirectory(str(tmp_path)).steps()[-1]
  assert reached >= 5
  found = results(start(2, tmp_path, reached + 5))
  check(found, tmp_path, 1e-5, steps=reached + 5)
