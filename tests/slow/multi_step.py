"""Several steps in one program do what as many steps do that the host calls: the largest difference
of any variable after 20 steps, for every conformance case, on one core and on eight.

On one core the loop is inside of `strategy.run`, as on a TPU; on eight it is around the cores.

Example:
    python -m tests.slow.multi_step
"""

import pathlib
import tempfile

import numpy as np

import trainer
from tests.conformance import cases
from trainer import testing
from trainer.devices import device as device_lib

STEPS, PER_PROGRAM, TOLERANCE = 20, 6, 1e-6
# A bias in front of batch norm has a gradient of zero, but for rounding. Adam divides it by its own
# size, so that the bias and the mean that follows it walk at random, without effect on the loss.
UNDETERMINED = {"batch_norm_and_dropout": ("conv2d/bias", "batch_normalization/moving_mean")}


def values(case, folder, device, steps_per_program):
  tpu = trainer.TPUConfig(steps_per_program=steps_per_program)
  estimator = case.estimator(folder, device, tpu_config=tpu)
  return testing.values(estimator.train(case.train_input_fn, steps=STEPS))


def largest_difference(case, device):
  with tempfile.TemporaryDirectory() as folder:
    by_host = values(case, pathlib.Path(folder) / "host", device, None)
    in_program = values(case, pathlib.Path(folder) / "program", device, PER_PROGRAM)
  return max(
    float(np.max(np.abs(by_host[name] - in_program[name])))
    for name in by_host
    if name not in UNDETERMINED.get(case.name, ())
  )


def main():
  device_lib.connect("cpu:8")
  for device in ("cpu", "cpu:8"):
    for case in cases.CASES:
      difference = largest_difference(case, device)
      print(f"{device:<6} {case.name:<24} {difference:.1e}", flush=True)
      assert difference <= TOLERANCE


if __name__ == "__main__":
  main()
