"""XLA devices beside virtual cores: speed, the host's memory, and the host's share of a loop.

    python -m benchmarks.run xla

A TPU does a step of a small network in less than a millisecond: what counts then is how long it
waits for the host. The last row has one XLA device, and compares a loop of 100 steps with the same
programs on input that lies on the device.
"""

import functools
import tempfile

from benchmarks import cases, checkpoint_stall, results, sides, train

# 100 MB of weights; plain gradient descent, so that nothing else is as large.
WIDTH = 3536
STEPS = 100


def measure(rounds=10):
  """Rows of the digits, of a network of 100 MB, and of the host's share."""
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
  rows.append(_memory(case.title, slices))
  wide = {device: sides.Side(_train_wide, {"device": device}) for device in ("xla:8", "cpu:8")}
  rows.append(_memory("100 MB of weights", sides.alternate(wide, 2, warm=1)))
  return [*rows, _host_share(rounds)]


def _memory(title, slices):
  """A row: the most memory that the process with XLA devices had, beside virtual cores."""
  ours, other = (slices[device].peak / 2**20 for device in ("xla:8", "cpu:8"))
  failed = sides.failure(slices, "xla:8", "cpu:8")
  ratios = () if failed else (ours / other,)
  note = failed or f"{ours:,.0f} and {other:,.0f} MiB"
  return results.Row("xla", title, "cpu:8: peak of the host's memory", ratios, note=note)


def _host_share(rounds):
  """A row: how long a loop takes beside its programs alone."""
  both = {
    name: sides.Side(_loops, {"on_device": name == "programs"}) for name in ("loop", "programs")
  }
  slices = sides.alternate(both, rounds)
  ratios = tuple(1 / each for each in sides.ratios(slices, "programs", "loop"))
  note = sides.failure(slices, "loop", "programs")
  if not note:
    seconds = [1000 * min(slices[name].seconds) / (10 * STEPS) for name in both]
    note = "{:.2f} and {:.2f} ms a step at best".format(*seconds)
  case = f"a loop of {STEPS} steps, xla:1"
  return results.Row("xla", case, "its programs alone: time", ratios, at_most=1.11, note=note)


# ---------------------------------------------------------------------- the sides, each in a
# process of its own


def _train_wide(turns, device):
  import tensorflow as tf

  import trainer

  def input_fn(params):
    x = tf.random.stateless_normal([params["batch_size"], WIDTH], (1, 2))
    return tf.data.Dataset.from_tensors((x, x[:, 0])).repeat()

  with tempfile.TemporaryDirectory() as folder:
    trainer.Estimator(
      functools.partial(checkpoint_stall.model_fn, width=WIDTH),
      folder,
      trainer.RunConfig(device=device, tpu_config=trainer.TPUConfig(iterations_per_loop=5)),
      train_batch_size=64,
    ).train(input_fn, hooks=[train.Slice(turns, 5, 0)])


def _loops(turns, on_device):
  """Slices of ten loops of an Estimator, or of as many runs of its program on one stack."""
  import dataclasses

  import numpy as np

  import trainer
  from trainer.pjrt import program

  case = dataclasses.replace(cases.CASES["digits"], steps=STEPS)
  with tempfile.TemporaryDirectory() as folder:
    estimator = trainer.Estimator(
      cases.model_fn(case),
      folder,
      trainer.RunConfig(
        device="xla:1", tpu_config=trainer.TPUConfig(iterations_per_loop=case.steps)
      ),
      train_batch_size=case.batch_size,
    )
    input_fn = lambda params: cases.dataset(case, case.batch_size, training=True)
    if not on_device:
      estimator.train(input_fn, hooks=[train.Slice(turns, 10 * STEPS, 0)])
      return
    source = estimator.trace("train", input_fn)
    stack, loop = source.iterator.current(), source.traced
    loop.run(source.iterator, 1)  # gives the devices their variables
    values, executable = estimator._parts.program.store.on_xla.on_devices, loop.compile()
    places = {program.FIRST: np.int32(0), program.COUNT: np.int32(STEPS)}
    while turns.take():
      for _ in range(10):
        executable.run(values, stack.elements, places)
      values.wait()
