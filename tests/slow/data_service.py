"""A tf.data service of real processes: a dispatcher with its journal, and three workers.

    python -m tests.slow.data_service faults        # undisturbed; a worker killed for good, or
                                                    # started again at its port; the dispatcher
                                                    # killed and started again
    python -m tests.slow.data_service benchmark     # throughput with 0, 1 and 2 workers

An epoch has 60 files of 50 numbered examples, so the test can count lost and repeated ones. Without
a fault there must be none.
"""

import argparse
import collections
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import tensorflow as tf

from tests.slow import lost_workers
from trainer.inputs import data_service

_FILES, _IN_FILE, _BATCH = 60, 50, 10


def numbers(slowness):
  """The examples' numbers, batched; each needs some processor time on one thread."""

  def work(number):
    # The value depends on the number, so TensorFlow cannot compute it once for all examples.
    value = tf.fill([96, 96], 1.0 / (96.0 + tf.cast(number, tf.float32)))
    for _ in range(slowness):
      value = tf.matmul(value, value)
    return number + tf.cast(tf.reduce_sum(value) * 0.0, tf.int64)

  files = tf.data.Dataset.range(_FILES)
  examples = files.flat_map(
    lambda file: tf.data.Dataset.range(file * _IN_FILE, (file + 1) * _IN_FILE)
  )
  options = tf.data.Options()
  options.threading.private_threadpool_size = 1
  return examples.map(work).batch(_BATCH).with_options(options)


class Service:
  """The processes.

  Args:
    folder: for the journal and the logs.
  """

  def __init__(self, folder):
    self._folder = folder
    os.makedirs(folder, exist_ok=True)
    [self._port] = lost_workers.free_ports(1)
    self.address = f"grpc://localhost:{self._port}"
    self.dispatcher = self.start_dispatcher()
    self.workers = {}  # by port

  def start_dispatcher(self):
    """Starts the dispatcher, at its port and with its journal."""
    journal = os.path.join(self._folder, "journal")
    return self._wait(*self._begin("dispatcher", f"--port={self._port}", f"--journal={journal}"))

  def start_workers(self, count, ports=None):
    """Starts several workers side by side, at the given ports if any."""
    ports = ports or lost_workers.free_ports(count)
    begun = [
      self._begin(
        "worker", f"--dispatcher=localhost:{self._port}", "--host=localhost", f"--port={port}"
      )
      for port in ports
    ]
    for port, each in zip(ports, begun, strict=True):
      self.workers[port] = self._wait(*each)

  def kill_worker(self):
    """Kills the newest worker; returns its port."""
    port, victim = self.workers.popitem()
    victim.kill()
    victim.wait()
    return port

  def _begin(self, *arguments):
    log = os.path.join(self._folder, f"{time.time()}.log")
    with open(log, "wb") as file:
      process = subprocess.Popen(
        [sys.executable, "-m", "trainer.data_service", *arguments], stdout=file, stderr=file
      )
    return process, log

  def _wait(self, process, log):
    while not re.search(" (Dispatcher|Worker) at ", pathlib.Path(log).read_text()):
      assert process.poll() is None, pathlib.Path(log).read_text()
      time.sleep(0.2)
    return process

  def close(self):
    """Kills all processes."""
    for process in (self.dispatcher, *self.workers.values()):
      process.kill()
      process.wait()


def read(service, disturb=None, epochs=None):
  """Returns {number: how often}; calls disturb() after a third of an epoch.

  Reads one epoch to its end, or from an endless input as many examples as this many epochs have.
  """
  source = numbers(2) if epochs is None else numbers(2).repeat()
  dataset = data_service.distribute(source, service.address, None, 60.0)
  seen = collections.Counter()
  for batch in dataset.as_numpy_iterator():
    seen.update(batch.tolist())
    if disturb is not None and len(seen) >= _FILES * _IN_FILE // 3:
      disturb()
      disturb = None
    if epochs is not None and seen.total() >= epochs * _FILES * _IN_FILE:
      break
  return seen


def tell(name, seen):
  """Prints how many examples were lost or repeated; returns both numbers."""
  everything = _FILES * _IN_FILE
  lost = everything - len(seen)
  repeated = sum(seen.values()) - len(seen)
  print(
    f"{name}: {sum(seen.values())} examples read, of {everything} {lost} lost and {repeated} "
    "repeated",
    flush=True,
  )
  return lost, repeated


def faults(folder):
  """Reads epochs with and without faults."""
  service = Service(folder)
  try:
    service.start_workers(3)
    assert tell("no fault", read(service)) == (0, 0)

    # A finite epoch waits for all its workers, so restart the lost one at its port.
    def restart_worker():
      service.start_workers(1, [service.kill_worker()])

    lost, repeated = tell("a worker killed, started again", read(service, restart_worker))
    assert lost <= 5 * _IN_FILE, "more than the files that a worker was at work on"
    assert repeated == 0
    assert tell("the epoch after", read(service)) == (0, 0)

    # An endless input continues without the lost worker.
    epochs = 6
    killed = []
    seen = read(service, lambda: killed.append(service.kill_worker()), epochs)
    often = collections.Counter(seen[number] for number in range(_FILES * _IN_FILE))
    print(
      f"a worker killed, input without an end: of {_FILES * _IN_FILE} examples in {epochs} epochs, "
      f"how often: {dict(sorted(often.items()))}",
      flush=True,
    )
    fewer = sum(count for times, count in often.items() if times < epochs - 1)
    assert fewer <= 5 * _IN_FILE, "more than the files that a worker was at work on"
    service.start_workers(1, killed)

    def restart_dispatcher():
      service.dispatcher.kill()
      service.dispatcher.wait()
      service.dispatcher = service.start_dispatcher()

    lost, repeated = tell("the dispatcher killed, started again", read(service, restart_dispatcher))
    assert lost <= _IN_FILE * 3
    assert tell("the epoch after", read(service)) == (0, 0)
  finally:
    service.close()


def benchmark(folder, rounds):
  """Times an epoch of slow examples: here, and with one and two workers, in turn."""
  services = {count: Service(os.path.join(folder, str(count))) for count in (1, 2)}
  seconds = collections.defaultdict(list)
  slowness = 160
  try:
    for count, service in services.items():
      service.start_workers(count)
    for _ in range(rounds):
      for count in (0, *services):
        dataset = numbers(slowness)
        if count:
          dataset = data_service.distribute(dataset, services[count].address, None, 60.0)
        start = time.monotonic()
        for _ in dataset:
          pass
        seconds[count].append(time.monotonic() - start)
      print({count: [round(each, 1) for each in times] for count, times in seconds.items()})
  finally:
    for service in services.values():
      service.close()
  examples = _FILES * _IN_FILE
  base = statistics.median(seconds[0])
  for count, times in sorted(seconds.items()):
    middle = statistics.median(times)
    print(f"{count} workers: {examples / middle:,.0f} examples/s, {base / middle:.2f} of without")


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("what", choices=["faults", "benchmark"])
  parser.add_argument("--rounds", type=int, default=3)
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    if arguments.what == "faults":
      faults(folder)
    else:
      benchmark(folder, arguments.rounds)


if __name__ == "__main__":
  main()
