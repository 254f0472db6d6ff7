"""Runs trainings tracked by MLflow's own server: killed, in a sweep, and with a server that dies.

    python -m tests.slow.mlflow_server --mlflow=SERVER_ENVIRONMENT/bin/mlflow --kills=4
    python -m tests.slow.mlflow_server --mlflow=... --kills=0 --trials=10
    python -m tests.slow.mlflow_server --mlflow=... --kills=0 --rounds=3 --steps=40000

The server runs on 127.0.0.1 with its own store. It may have another environment than this one,
which needs mlflow or mlflow-skinny. Requirements:

- A killed and resumed training is one run, with each metric of each step of metrics.jsonl once.
- A sweep of n trials makes n runs with the sweep's name as their tag.
- If the server stops in the middle, the training succeeds, and takes no longer than one without
  tracking: the test compares the speeds in turn, as the median of ratios of steps a second.
  `python -m trainer.tracking` adds the missing points.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import mlflow

from trainer.reporting import metrics_file
from trainer.tracking import record

ROOT = pathlib.Path(__file__).parents[2]
EXPERIMENT = "slow"

SWEEP = """
sweep.metric = 'accuracy'
sweep.mode = 'max'
sweep.space = {'keras.optimizers.Adam.learning_rate': @lr/log_uniform()}
lr/log_uniform.low = 1e-4
lr/log_uniform.high = 0.1
sweep.bindings = {'run.train_steps': 60, 'MLflowHook.artifacts': ['config']}
"""


@contextlib.contextmanager
def server(command, folder, port):
  """Runs MLflow's server; yields its process once it answers.

  Others have it on another machine, so it has a lower priority here than the training.
  """
  words = [
    *("nice", "-n", "15", command, "server"),
    *("--host=127.0.0.1", f"--port={port}", "--workers=1"),
    *(
      f"--backend-store-uri=sqlite:///{folder}/mlflow.db",
      f"--artifacts-destination={folder}/files",
    ),
  ]
  with open(f"{folder}/server.log", "a") as log:
    process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, start_new_session=True)
  try:
    _wait_for(f"http://127.0.0.1:{port}/health", process)
    yield process
  finally:
    stop(process)


def stop(process):
  """Kills the server with all its processes, as a loss of power does."""
  with contextlib.suppress(ProcessLookupError):
    os.killpg(process.pid, signal.SIGKILL)
  process.wait()


def _wait_for(address, process):
  while process.poll() is None:
    with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
      return
    time.sleep(0.5)
  raise SystemExit(f"The server has ended with {process.returncode}.")


def train(model_dir, uri, *bindings):
  """Starts a training of the digits; without a uri, nothing tracks it.

  The training's output goes to a file: a full pipe would stop a training that nobody reads.
  """
  hook = ["run.train_hooks = [@MLflowHook()]", f"MLflowHook.tracking_uri = '{uri}'"]
  hook += [f"MLflowHook.experiment = '{EXPERIMENT}'", "MLflowHook.seconds = 1.0"]
  flags = [f"--gin_bindings={each}" for each in [*(hook if uri else []), *bindings]]
  with open(_log(model_dir), "a") as log:
    return subprocess.Popen(
      [
        *(sys.executable, "-m", "trainer.main", "--gin_file=gin_configs/digits.gin"),
        *(f"--model_dir={model_dir}", "--device=cpu", *flags),
      ],
      cwd=ROOT,
      stdout=log,
      stderr=subprocess.STDOUT,
    )


def finish(process, model_dir):
  """Waits for a training; returns its output."""
  process.wait()
  said = pathlib.Path(_log(model_dir)).read_text()
  assert process.returncode == 0, said
  return said


def _log(model_dir):
  return f"{model_dir}.log"


def counted(client, run):
  """Returns (metric, step) → the number of its points in a run."""
  history = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
  return collections.Counter((key, each.step) for key, all_of in history.items() for each in all_of)


def written(model_dir):
  """Returns the content of metrics.jsonl in the same form."""
  return collections.Counter(
    (f"{line['kind']}/{name}", line["step"])
    for line in metrics_file.read(model_dir)
    for name in line
    if name not in ("step", "time", "kind")
  )


def runs(client):
  experiment = client.get_experiment_by_name(EXPERIMENT)
  return client.search_runs([experiment.experiment_id]) if experiment else []


def require_whole(client, model_dir):
  """Requires one run of a folder in MLflow, with each metric of each step once."""
  [run] = [each for each in runs(client) if each.data.tags["model_dir"] == model_dir]
  assert counted(client, run) == written(model_dir), (
    counted(client, run) - written(model_dir),
    written(model_dir) - counted(client, run),
  )
  assert run.info.status == "FINISHED", run.info.status
  assert run.data.params["digits_mlp.model_fn.dropout"] == "0.2"
  return run


def kill_and_resume(client, uri, folder, kills, steps, chance):
  """Kills a training several times, at steps that metrics.jsonl has reached."""
  model_dir = f"{folder}/killed"
  bindings = [f"run.train_steps = {steps}", f"RunConfig.save_checkpoints_steps = {steps // 10}"]
  for number in range(kills):
    at = chance.uniform(number, number + 1) * steps / (kills + 1)
    process = train(model_dir, uri, *bindings)
    while process.poll() is None and _sent(model_dir) < at:
      time.sleep(0.02)
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL, "The training was too short to be killed."
    print(f"killed at step {_newest(model_dir)}, sent {_sent(model_dir)}", flush=True)
  finish(train(model_dir, uri, *bindings), model_dir)
  run = require_whole(client, model_dir)
  print(f"one run, {sum(written(model_dir).values())} points, each once: {run.info.run_id}")


def _sent(model_dir):
  known = record.read(model_dir, "mlflow")
  return known.sent.get(metrics_file.TRAIN, -1) if known else -1


def _newest(model_dir):
  return max((line["step"] for line in metrics_file.read(model_dir)), default=0)


def sweep(client, uri, folder, trials):
  """Runs a sweep; its trials have its name as their tag."""
  before = {run.info.run_id for run in runs(client)}
  pathlib.Path(folder, "sweep.gin").write_text(SWEEP)
  bindings = ["run.train_hooks = [@MLflowHook()]", f"MLflowHook.tracking_uri = '{uri}'"]
  bindings.append(f"MLflowHook.experiment = '{EXPERIMENT}'")
  subprocess.run(
    [
      *(sys.executable, "-m", "trainer.sweep", "--gin_file=gin_configs/digits.gin"),
      *(f"--sweep_file={folder}/sweep.gin", f"--sweep_dir={folder}/sweep", "--device=cpu"),
      *(f"--trials={trials}", "--workers=2", *(f"--gin_bindings={each}" for each in bindings)),
    ],
    cwd=ROOT,
    check=True,
  )
  made = [run for run in runs(client) if run.info.run_id not in before]
  assert [run.data.tags.get("sweep") for run in made] == ["sweep"] * trials
  for number in range(trials):
    require_whole(client, f"{folder}/sweep/trials/{number}")
  print(f"{trials} runs of the sweep")


def speed(model_dir):
  """Returns the steps a second from the first report to the last."""
  lines = [line for line in metrics_file.read(model_dir) if line["kind"] == metrics_file.TRAIN]
  first, last = lines[1], lines[-1]
  return (last["step"] - first["step"]) / (last["time"] - first["time"])


def outage(command, client, uri, folder, rounds, steps, port):
  """Stops the server in the middle of a training, and compares its speed with one without."""
  bindings = [f"run.train_steps = {steps}", f"RunConfig.save_checkpoints_steps = {steps}"]
  ratios = []
  for number in range(rounds):
    plain, followed = f"{folder}/plain-{number}", f"{folder}/followed-{number}"
    with server(command, folder, port) as process:
      # Beside the server too, which still starts its parts after it has answered.
      finish(train(plain, "", *bindings), plain)
      training = train(followed, uri, *bindings)
      while training.poll() is None and _newest(followed) < steps // 2:
        time.sleep(0.05)
      stop(process)
      said = finish(training, followed)
    assert said.count("does not take the run's data") == 1, said
    ratios.append(speed(followed) / speed(plain))
    print(f"steps a second with a dying server: {ratios[-1]:.3f} of those without", flush=True)
    with server(command, folder, port):
      subprocess.run([sys.executable, "-m", "trainer.tracking", followed], cwd=ROOT, check=True)
      [run] = [each for each in runs(client) if each.data.tags["model_dir"] == followed]
      assert counted(client, run) == written(followed)
  print(f"median {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--mlflow", default="mlflow", help="the server's command")
  parser.add_argument("--kills", type=int, default=4)
  parser.add_argument("--trials", type=int, default=0)
  parser.add_argument("--rounds", type=int, default=0)
  parser.add_argument("--steps", type=int, default=40000)
  parser.add_argument("--seed", type=int, default=0)
  asked = parser.parse_args()
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
  uri = f"http://127.0.0.1:{port}"
  client = mlflow.MlflowClient(uri)
  with tempfile.TemporaryDirectory() as folder:
    with server(asked.mlflow, folder, port):
      if asked.kills:
        kill_and_resume(client, uri, folder, asked.kills, asked.steps, random.Random(asked.seed))
      if asked.trials:
        sweep(client, uri, folder, asked.trials)
    if asked.rounds:
      outage(asked.mlflow, client, uri, folder, asked.rounds, asked.steps, port)


if __name__ == "__main__":
  main()
