"""Images per second of gin_configs/cifar10_air94.gin, beside the same training in PyTorch.

    python -m benchmarks.run air --tfds=/data/tfds --rounds=5

A slice is some steps of 1,024 images with everything that the training does: the input with its
augmentation, the step, the slow weights. PyTorch runs eagerly with both layouts of the images, and
through torch.compile, in both precisions. Its images are random: the time of a step does not depend
on what is in them.
"""

import tempfile

import numpy as np

from benchmarks import results, sides
from benchmarks.train import Slice

STEPS = 2
BATCH_SIZE = 1024
# Name of the way → arguments of `torch`.
WAYS = {
  "eager": {},
  "eager, channels first": {"channels_last": False},
  "compiled": {"compiled": True},
}


def measure(tfds=None, rounds=10, precisions=("bfloat16", "float32"), ways=tuple(WAYS)):
  """The results.Rows.

  Args:
    tfds: TFDS's folder with cifar10; None for its own.
    rounds: slices of each side.
    precisions: that are compared.
    ways: names of WAYS, in which PyTorch runs.
  """
  rows = []
  for precision in precisions:
    found = {"octet": sides.Side(octet, {"precision": precision, "tfds": tfds})}
    for way in ways:
      found[way] = sides.Side(torch, {"precision": precision} | WAYS[way])
    slices = sides.alternate(found, rounds)
    for way in ways:
      rows.append(
        results.Row(
          "air",
          f"cifar10_air94, {precision}",
          f"PyTorch, {way}",
          sides.ratios(slices, way),
          at_least=1.3,
          note=sides.note(slices, STEPS * BATCH_SIZE, way),
        )
      )
  return rows


def octet(turns, precision, tfds):
  """The gin file, with nothing changed but the length of the device loop."""
  from trainer.config import loading

  bindings = [f"TPUConfig.iterations_per_loop = {STEPS}", "RunConfig.save_checkpoints_steps = None"]
  if tfds:
    bindings.append(f"cifar10.input_fn.data_dir = {tfds!r}")
  loading.load(["gin_configs/cifar10_air94.gin"], bindings)
  from trainer import experiment

  asked = experiment.Experiment()
  with tempfile.TemporaryDirectory() as folder:
    flags = experiment.Flags(model_dir=folder, mode="train", device="cpu", precision=precision)
    estimator = experiment.make_estimator(asked, flags)
    estimator.train(
      asked.train_input_fn, max_steps=asked.train_steps, hooks=[Slice(turns, STEPS, 0)]
    )


def torch(turns, precision, channels_last=True, compiled=False):
  """The same training in PyTorch."""
  import torch

  from benchmarks import torch_air

  random = np.random.RandomState(1)
  images = random.randint(0, 256, (50_000, 32, 32, 3), np.uint8)
  labels = random.randint(0, 10, 50_000)
  dtype = getattr(torch, precision)
  train = torch_air.Training(images, labels, BATCH_SIZE, dtype, channels_last, compiled)
  while turns.take():
    for _ in range(STEPS):
      train()
