"""Accuracy of gin_configs/cifar10_air94.gin without one of its parts, and with another.

    python -m benchmarks.ablation --tfds=/data/tfds --seeds=1,2,3

Each row of the table is a smaller network and a shorter training than the file's: 16, 64 and 64
filters, three epochs. Two trainings run at a time, each on one core. The accuracy is that of the
test images, in percent: the mean over the seeds, and their sample standard deviation. The last
column compares with the first row, seed by seed: the mean difference, and its standard error.
"""

import argparse
import concurrent.futures
import json
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile

SHORT = [
  "cifar10_air.model_fn.filters = (16, 64, 64)",
  "run.train_steps = 143",
  "whitening/VariableGroup.until = 48",
  "RunConfig.save_checkpoints_steps = None",
  "run.exporters = []",
]
# Name of the row → gin bindings of the evaluation.
VIEWS = {
  "everything": [],
  "one view of each test image": ["cifar10_air.model_fn.views = 'one'"],
  "an image and its mirror image": ["cifar10_air.model_fn.views = 'mirror'"],
}
# Name of the row → gin bindings of the training.
ROWS = {
  "random flip, not alternating": ["augment.standard.flip = True"],
  "neither flip nor shift": ["augment.standard.flip = False", "augment.standard.shift = 0"],
  "no slow weights": ["minimize.lookahead = None"],
  "no label smoothing": ["cifar10_air.model_fn.label_smoothing = 0.0"],
  "one learning rate for all variables": [
    "biases/VariableGroup.learning_rate_factor = 1.0",
    "cifar10_air.model_fn.bias_decay = 0.00133",
  ],
  "a constant learning rate, 0.5": ["tf.compat.v1.train.MomentumOptimizer.learning_rate = 0.5"],
  "Cutout of 8 pixels": ["augment.standard.cutout = 8"],
  "MixUp": [
    "cifar10.input_fn.mix = @augment.mix",
    "augment.mix.classes = 10",
    "augment.mix.mixup = 0.2",
  ],
}


def run(mode, folder, core, seed, bindings):
  """Runs one command on one core."""
  command = [
    *("taskset", "--cpu-list", str(core), sys.executable, "-m", "trainer.main"),
    f"--mode={mode}",
    "--gin_file=gin_configs/cifar10_air94.gin",
    f"--model_dir={folder}",
    "--device=cpu",
    "--precision=bfloat16",
    f"--seed={seed}",
    *(f"--gin_bindings={each}" for each in bindings),
  ]
  done = subprocess.run(command, capture_output=True, text=True)
  if done.returncode:
    raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")


def accuracies(cores, seed, bindings, evaluations):
  """Trains once; returns the accuracy of each evaluation in percent.

  Args:
    cores: a queue of the numbers of free cores.
    seed: of the training.
    bindings: of the training.
    evaluations: further bindings of each evaluation; the first one follows the training.
  """
  core = cores.get()
  found = []
  with tempfile.TemporaryDirectory() as folder:
    for number, more in enumerate(evaluations):
      mode = "evaluate" if number else "train_and_evaluate"
      run(mode, folder, core, seed, [*bindings, *more])
      [result] = json.loads((pathlib.Path(folder) / "evaluations.json").read_text())[""].values()
      found.append(100 * result["accuracy"])
  cores.put(core)
  return found


def row(name, found, first):
  """Returns a line of the table.

  Args:
    name: of the row.
    found: its accuracies, one for each seed.
    first: the first row's.
  """
  changes = [one - other for one, other in zip(found, first, strict=True)]
  change = (
    f"{statistics.mean(changes):+.2f} ± {statistics.stdev(changes) / len(changes) ** 0.5:.2f}"
  )
  mean = f"{statistics.mean(found):.2f} ± {statistics.stdev(found):.2f}"
  return f"| {name} | {mean} | {'' if found is first else change} |"


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--tfds", help="TFDS's folder with cifar10")
  parser.add_argument("--seeds", default="1,2,3", help="at least two")
  arguments = parser.parse_args()
  common = list(SHORT)
  if arguments.tfds:
    common.append(f"cifar10.input_fn.data_dir = {arguments.tfds!r}")
  seeds = [int(each) for each in arguments.seeds.split(",")]
  cores = queue.Queue()
  for core in (0, 1):
    cores.put(core)
  with concurrent.futures.ThreadPoolExecutor(cores.qsize()) as executor:
    views = [executor.submit(accuracies, cores, seed, common, VIEWS.values()) for seed in seeds]
    others = {
      name: [executor.submit(accuracies, cores, seed, [*common, *more], [[]]) for seed in seeds]
      for name, more in ROWS.items()
    }
    found = dict(zip(VIEWS, zip(*(each.result() for each in views), strict=True), strict=True))
    first = next(iter(found.values()))
    print("| training | accuracy, % | change |\n|---|---|---|")
    for name, each in found.items():
      print(row(name, each, first), flush=True)
    for name, each in others.items():
      print(row(name, [one.result()[0] for one in each], first), flush=True)


if __name__ == "__main__":
  main()
