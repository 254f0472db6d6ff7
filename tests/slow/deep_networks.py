"""Runs the deep networks of keras.applications through the tests that other networks pass quickly.

These are the checks from eight cores to one in all modes (tests/conformance/test_experiments.py),
and all checks of experiments (tests/test_gin_configs.py).

    python -m tests.slow.deep_networks
"""

import pathlib
import tempfile
import time

from tests import test_gin_configs
from tests.conformance import test_experiments
from trainer.devices import device as device_lib


def main():
  device_lib.connect("cpu:8")
  for file in test_gin_configs.DEEP:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
      test_experiments.check(file, pathlib.Path(folder), test_experiments.PLAIN)
      test_gin_configs.check_what_all_can_be_told(file, pathlib.Path(folder))
    seconds = time.monotonic() - start
    print(
      f"{file}: two steps on eight cores, then one core in all modes, and what it can be told, "
      f"in {seconds:.0f} s",
      flush=True,
    )


if __name__ == "__main__":
  main()
