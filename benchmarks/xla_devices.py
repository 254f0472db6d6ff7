"""XLA devices compared with virtual cores: speed, and the host's share of a loop.

    python -m benchmarks.run xla

A TPU needs less than a millisecond for a step of a small network, so its wait for the host decides.
The last row has one XLA device and loops of 100 steps, and measures from the end of a loop's
program on the device to the start of the next one. It does not compare the loop with its programs
alone: a host that reads input takes time from a device on the same CPU, but none from a TPU.
"""

import statistics
import tempfile
import time

from benchmarks import cases, results, sides, train

STEPS = 100


def measure(rounds=10):
  """Returns rows for the digits, and for the host's share."""
  case = cases.CASES["digits"]
  digits = {
    device: sides.Side(train.octet, {"case": case, "precision": "float32", "device": device})
    for device in ("xla:8", "cpu:8")
  }
  slices = sides.alternate(digits, rounds)
  examples = case.steps * case.batch_size
  note = sides.note(slices, examples, "cpu:8", "xla:8")
  speed = sides.ratios(slices, "cpu:8", "xla:8")
  rows = [results.Row("xla", case.title, "cpu:8: speed", speed, at_least=1, note=note)]
  return [*rows, _host_share(rounds)]


def _host_share(rounds):
  """Returns a row: the share of time in which the device waits for the host."""
  with tempfile.NamedTemporaryFile("w+") as file:
    slices = sides.alternate({"loop": sides.Side(_loops, {"path": file.name})}, rounds, warm=2)
    waits = [float(line) for line in file]
  note, ratios = sides.failure(slices, "loop"), ()
  if not note:
    seconds = slices["loop"].seconds
    # After a slice's last loop, the side waits for its turn.
    of_slices = [waits[10 * index : 10 * index + 9] for index in range(2, 2 + len(seconds))]
    ratios = tuple(
      statistics.mean(inside) * 10 / whole for inside, whole in zip(of_slices, seconds, strict=True)
    )
    note = (
      f"{min(seconds) / STEPS * 100:.2f} ms a step, "
      f"{statistics.median(waits) * 1000:.1f} ms of waiting a loop"
    )
  case = f"loops of {STEPS} steps, xla:1"
  return results.Row("xla", case, "the whole: waiting for the host", ratios, at_most=0.1, note=note)


# ---------------------------------------------------------------------- the sides, one process each


def _loops(turns, path):
  """Runs slices of ten loops.

  Writes a line to the file for each loop: how long the device waited after it.
  """
  import dataclasses

  import trainer
  from trainer.pjrt import execution
  from trainer.tracing import xla_variables

  case = dataclasses.replace(cases.CASES["digits"], steps=STEPS)
  run, read_each = execution.Executable.run, xla_variables.XlaVariables.read_each
  finished = [0.0]

  def timed_run(*args):
    found = run(*args)
    if finished[0]:
      with open(path, "a") as file:
        file.write(f"{time.perf_counter() - finished[0]}\n")
    return found

  def timed_read(variables, *args):  # ends a loop
    variables.on_devices.wait()
    finished[0] = time.perf_counter()
    return read_each(variables, *args)

  execution.Executable.run, xla_variables.XlaVariables.read_each = timed_run, timed_read
  with tempfile.TemporaryDirectory() as folder:
    trainer.Estimator(
      cases.model_fn(case),
      folder,
      trainer.RunConfig(
        device="xla:1", tpu_config=trainer.TPUConfig(iterations_per_loop=case.steps)
      ),
      train_batch_size=case.batch_size,
    ).train(
      lambda params: cases.dataset(case, case.batch_size, training=True),
      hooks=[train.Slice(turns, 10 * STEPS, 0)],
    )
