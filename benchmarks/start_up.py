"""Times commands: to the first training step of the digits, and to an answer without TensorFlow.

    python -m benchmarks.start_up

The comparison for the first step is a script of fifteen lines with the same network, optimizer and
data. Keras's `fit` runs without XLA: by default it compiles on the CPU too, and would take longer.
Each run is a separate process, timed from its start.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import gin

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAIN = [sys.executable, "-m", "trainer.main"]

# The mark before the time that a process prints after its first training step.
_MARK = "first step done at"

SCRIPT = f"""
import time
import keras
import tensorflow
from sklearn import datasets

digits = datasets.load_digits()
layers = [keras.layers.Flatten()]
for units in (128, 64):
  layers += [keras.layers.Dense(units, activation="relu"), keras.layers.Dropout(0.2)]
model = keras.Sequential([*layers, keras.layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.001), loss, jit_compile=False)
model.fit(digits.images[..., None] / 16, digits.target, batch_size=32, steps_per_epoch=1, verbose=0)
print({_MARK!r}, time.time())
"""


@gin.configurable(module="start_up")
def mark(step, metrics, estimator):
  """A hook that prints the time of the first step's end."""
  del metrics, estimator
  if step == 1:
    print(_MARK, time.time(), flush=True)


def measure(rounds=10):
  """Returns the results.Rows.

  Each round runs every command once, and its counterpart right after it or, in each second round,
  before it.
  """
  first_step = Pairs(rounds, command_to_first_step, _script_to_first_step)
  rows = [first_step.row("digits, command to first training step", "minimal Keras script", 1.25)]
  for case, arguments in (
    ("--help", ["--help"]),
    ("a gin file that is not there", ["--gin_file=gin_configs/digit.gin", "--model_dir=out"]),
  ):
    pairs = Pairs(
      rounds,
      lambda arguments=arguments: _seconds([*MAIN, *arguments]),
      lambda: _seconds([sys.executable, "-c", "import tensorflow"]),
    )
    rows.append(pairs.row(case, "import tensorflow", 0.5))
  return rows


class Pairs:
  """Seconds of `ours` and of `theirs`, functions that return seconds, in turn."""

  def __init__(self, rounds, ours, theirs):
    self._seconds = []
    for index in range(rounds):
      if index % 2:
        other = theirs()
        self._seconds.append((ours(), other))
      else:
        self._seconds.append((ours(), theirs()))

  def row(self, case, against, at_most):
    from benchmarks import results  # here, because the command under test imports this file

    ours, theirs = (statistics.median(seconds) for seconds in zip(*self._seconds, strict=True))
    return results.Row(
      "start",
      case,
      against,
      tuple(one / other for one, other in self._seconds),
      at_most=at_most,
      note=f"{ours:.2f} s against {theirs:.2f} s",
    )


def command_to_first_step(tree=ROOT):
  """Returns the seconds to the digits' first step, with the Octet of the folder `tree`."""
  with tempfile.TemporaryDirectory() as folder:
    return _to_mark(
      [
        *MAIN,
        "--gin_file=gin_configs/digits.gin",
        f"--model_dir={folder}/run",
        "--mode=train",
        "--gin_bindings=run.train_steps = 1",
        "--gin_bindings=import benchmarks.start_up",
        "--gin_bindings=run.train_hooks = [@start_up.mark]",
      ],
      tree,
    )


def _script_to_first_step():
  return _to_mark([sys.executable, "-c", SCRIPT])


def _to_mark(command, cwd=ROOT):
  start = time.time()
  done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
  marks = [line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK)]
  if done.returncode or not marks:
    raise RuntimeError(f"{command} failed:\n{done.stderr}")
  return float(marks[0]) - start


def _seconds(command):
  start = time.monotonic()
  # One of the commands is a deliberate mistake.
  subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
  return time.monotonic() - start


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--rounds", type=int, default=10)
  from benchmarks import results

  results.show(measure(parser.parse_args().rounds))


if __name__ == "__main__":
  main()
