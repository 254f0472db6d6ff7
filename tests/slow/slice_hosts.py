"""The input of a TPU slice of four hosts, each of which is a process of its own.

    python -m tests.slow.slice_hosts

The cores are made up, so that nothing is computed: in the place of each stands the memory of its
host. All else is as on a slice: TensorFlow's servers on the hosts, one process that drives them, a
TPUStrategy over 32 cores, input pipelines that the hosts run. Each host has a file with its number
in its working directory, and each example says what the file held where the example was made.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types

import numpy as np
import tensorflow as tf

from tests.slow import lost_workers
from trainer import run_config
from trainer.inputs import feeder
from trainer.preflight import fake_tpu
from trainer.programs import loop_input, plan
from trainer.settings.kinds import Kind

HOSTS, CORES = 4, 8
BATCH, STEPS = 2, 3  # of a core; in a stack
GLOBAL = HOSTS * CORES * BATCH
EXAMPLES = 10 * GLOBAL + 50  # ten steps, and too few for another one


def whole(params):
  """An input_fn that knows of no hosts: 0, 1, 2, ..."""
  return _examples(tf.data.Dataset.range(EXAMPLES), params)


def shared(params, input_context, start=0):
  """An input_fn that chooses its share by itself, and begins where it is told to."""
  hosts, host = input_context.num_input_pipelines, input_context.input_pipeline_id
  return _examples(tf.data.Dataset.range(EXAMPLES).shard(hosts, host).skip(start // hosts), params)


def _examples(dataset, params):
  def example(number):
    return {"number": number, "host": tf.strings.to_number(tf.io.read_file("host"), tf.int64)}

  return dataset.map(example).batch(params["batch_size"], drop_remainder=True)


def serve(addresses, host):
  """Runs one host's TensorFlow server until the process is killed."""
  server = tf.distribute.Server({"worker": addresses}, job_name="worker", task_index=host)
  print("ready", flush=True)
  server.join()


def start_hosts(folder, addresses):
  """Starts the hosts' processes; returns them when all are ready."""
  processes = []
  for host in range(HOSTS):
    place = pathlib.Path(folder, str(host))
    place.mkdir()
    (place / "host").write_text(str(host))
    command = [sys.executable, "-m", "tests.slow.slice_hosts", f"--host={host}", *addresses]
    processes.append(
      subprocess.Popen(
        command,
        cwd=place,
        env=dict(os.environ, PYTHONPATH=os.getcwd()),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
      )
    )
  for process in processes:
    assert process.stdout.readline() == b"ready\n", f"a host ended: {process.poll()}"
  return processes


def steps_of(input_fn, start=0):
  """[numbers of a step, sorted] of a training; checks that each core's host made its examples."""
  strategy = fake_tpu.strategy(HOSTS * CORES)
  places = [
    f"/job:worker/replica:0/task:{core // CORES}/device:CPU:0" for core in range(HOSTS * CORES)
  ]
  feed = feeder.Feeder(
    feeder.Layout(HOSTS * CORES, HOSTS * CORES), lambda kind: BATCH, run_config.RunConfig(), {}
  )

  config = run_config.RunConfig(tpu_config=run_config.TPUConfig(steps_per_program=STEPS))
  loops = types.SimpleNamespace(
    devices=places,
    planner=plan.Planner(config, plan.Target(HOSTS * CORES)),
    program=types.SimpleNamespace(strategy=strategy),
    trace_training=lambda element_spec, is_endless: None,
  )
  inputs = loop_input.LoopInputs(feed, loops, driven_hosts=HOSTS)
  reader = inputs.call_and_trace(Kind.TRAIN, input_fn, start=start).iterator
  found = []
  while stack := reader.current():
    for core, (features,) in enumerate(stack.elements):
      assert features["number"].device == places[core], features["number"].device
      made_by = features["host"].numpy()[: stack.steps]
      np.testing.assert_array_equal(made_by, core // CORES)
    numbers = np.stack([features["number"].numpy() for (features,) in stack.elements])
    found += [sorted(numbers[:, step].ravel().tolist()) for step in range(stack.steps)]
    stack.first = stack.steps
  return found


def check():
  """Reads epochs in both ways, from their beginning and from a place in them."""
  for input_fn in (whole, shared):
    begun = time.monotonic()
    steps = steps_of(input_fn)
    seen = sorted(number for step in steps for number in step)
    assert len(steps) == EXAMPLES // GLOBAL, len(steps)
    assert len(set(seen)) == len(seen) == len(steps) * GLOBAL
    if input_fn is whole:  # as on one host
      assert steps == [list(range(s * GLOBAL, (s + 1) * GLOBAL)) for s in range(len(steps))]
    assert steps_of(input_fn, start=4 * GLOBAL) == steps[4:]
    print(
      f"input_fn {input_fn.__name__}: {len(steps)} steps of {GLOBAL} examples, each example once, "
      f"each made by the host of its core; the same from step 4 on ({time.monotonic() - begun:.1f} "
      "s)",
      flush=True,
    )


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--host", type=int)
  parser.add_argument("addresses", nargs="*")
  arguments = parser.parse_args()
  if arguments.addresses:
    serve(arguments.addresses, arguments.host)
    return
  addresses = [f"localhost:{port}" for port in lost_workers.free_ports(HOSTS)]
  with tempfile.TemporaryDirectory() as folder:
    processes = start_hosts(folder, addresses)
    try:
      tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": addresses}))
      check()
    finally:
      for process in processes:
        process.kill()
        process.wait()
  os._exit(0)  # TensorFlow's own end would ask the hosts, which are gone


if __name__ == "__main__":
  main()
