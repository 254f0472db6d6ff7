"""Makes fresh runs on eight virtual cores, one after another in one process.

A watchdog prints every thread's stack if a run stalls.

    python -m tests.slow.never_stalls --runs=200 --steps=12

Each run makes its own Estimator, model_dir, input pipeline and device loops, as a new program
would. A run that takes a minute counts as stalled.
"""

import argparse
import faulthandler
import statistics
import tempfile
import time

import tensorflow as tf

from tests.conformance import cases
from trainer.devices import device as device_lib

_STALLED_SECONDS = 60


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--runs", type=int, default=200)
  parser.add_argument("--steps", type=int, default=12)
  parser.add_argument("--device", default="cpu:8")
  arguments = parser.parse_args()
  device_lib.connect(arguments.device)
  case = next(case for case in cases.CASES if case.name == "keras_layers")
  seconds = []
  for run in range(arguments.runs):
    faulthandler.dump_traceback_later(_STALLED_SECONDS, exit=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as model_dir:
      estimator = case.estimator(model_dir, arguments.device)
      estimator.train(case.train_input_fn, steps=arguments.steps)
      if run % 10 == 0:
        estimator.evaluate(case.eval_input_fn)
    faulthandler.cancel_dump_traceback_later()
    seconds.append(time.monotonic() - start)
    print(f"run {run + 1}/{arguments.runs}: {seconds[-1]:.2f} s", flush=True)
  print(
    f"{arguments.runs} runs of {arguments.steps} steps on {arguments.device} with TensorFlow "
    f"{tf.__version__}: none stalled; "
    f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s"
  )


if __name__ == "__main__":
  main()
