"""Runs all benchmarks, or the named ones: prints one table, writes results.json and results.md.

    python -m benchmarks.run
    python -m benchmarks.run train inference --cases=digits,cifar128 --rounds=20
    python -m benchmarks.run train --device=gpu
    python -m benchmarks.run legacy --tf215=tf215/bin/python
    python -m benchmarks.run trees --tree=/tmp/before --cases=digits,cifar128

Every figure is a ratio from one run with both sides in turn: the median over the rounds. PyTorch
comes with `pip install '.[benchmarks]'`.
"""

import argparse
import functools

from benchmarks import cases, results


def questions(arguments):
  """Returns name → functions that return the rows of one part each."""
  # Not at the top: the sides' processes import this module, and must load only their own packages.
  from benchmarks import (
    cifar10_air,
    exports,
    inference,
    input_pipelines,
    legacy,
    legacy_program,
    start_up,
    train,
    trees,
    xla_devices,
  )

  return {
    "train": [
      functools.partial(train.measure, [case], arguments.rounds, device=arguments.device)
      for case in arguments.cases
    ],
    "inference": [
      functools.partial(inference.measure, [case], arguments.rounds) for case in arguments.cases
    ],
    "exports": [
      functools.partial(exports.measure, [case], arguments.rounds)
      for case in arguments.cases
      if case in exports.CASES
    ],
    "input": [
      functools.partial(
        input_pipelines.measure, arguments.tfds, arguments.flowers, arguments.rounds, only=[case]
      )
      for case in input_pipelines.CASES
    ],
    "start": [functools.partial(start_up.measure, arguments.rounds)],
    "legacy": [
      functools.partial(legacy.measure, arguments.rounds, arguments.tf215, [name])
      for name in legacy_program.CASES
    ],
    "air": [
      functools.partial(cifar10_air.measure, arguments.tfds, arguments.rounds, [precision])
      for precision in ("bfloat16", "float32")
    ],
    "xla": [functools.partial(xla_devices.measure, arguments.rounds)],
    "trees": [
      *(
        functools.partial(trees.measure, arguments.tree, [case], arguments.rounds)
        for case in arguments.cases
      ),
      functools.partial(trees.measure_start, arguments.tree, arguments.rounds),
    ],
  }


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; default: all")
  parser.add_argument(
    "--cases",
    type=lambda text: text.split(","),
    default=list(cases.CASES),
    help=f"of {','.join(cases.CASES)}",
  )
  parser.add_argument("--rounds", type=int, default=10)
  parser.add_argument(
    "--device",
    choices=["cpu", "gpu"],
    default="cpu",
    help="device of train; the other benchmarks run on cpu",
  )
  parser.add_argument("--tfds", help="TFDS's folder with cifar10 and tf_flowers; default: its own")
  parser.add_argument("--flowers", help="the same for tf_flowers, if it is elsewhere")
  parser.add_argument(
    "--tf215", default="", help="for legacy: a Python with tensorflow-cpu==2.15.*; default: without"
  )
  parser.add_argument(
    "--tree", default="", help="for trees: another folder with Octet; default: without"
  )
  parser.add_argument(
    "--out",
    default="out/benchmarks",
    help="the folder of results.json and results.md; rows of other runs stay in them",
  )
  arguments = parser.parse_args()
  known = questions(arguments)
  for chosen, names, what in (
    (arguments.names, known, "benchmark"),
    (arguments.cases, cases.CASES, "case"),
  ):
    if unknown := [name for name in chosen if name not in names]:
      parser.error(f"there is no {what} {', '.join(unknown)}; expected some of {', '.join(names)}")
  for name in arguments.names or known:
    for part in known[name]:
      if rows := part():  # no rows if a data set is missing
        results.show(rows)
        results.add(rows, arguments.out)  # write at once: the whole run takes an hour
  print(f"Written to {arguments.out}.")


if __name__ == "__main__":
  main()
