"""The deep networks of keras.applications, as tests/conformance/test_experiments.py has the others: from eight cores to one, in all modes.

    python -m tests.slow.deep_networks
"""

import pathlib
import tempfile
import time

from tests.conformance import test_experiments
from trainer import device as device_lib


def main():
  device_lib.connect("cpu:8")
  for file in test_experiments.DEEP:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
      test_experiments.check(file, pathlib.Path(folder), test_experiments.PLAIN)
    print(f"{file}: two steps on eight cores, one more, evaluation, export and predictions on one, in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
  main()
