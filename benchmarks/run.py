"""All benchmarks, or those that are named: prints one table, writes results.json and results.png.

    python -m benchmarks.run
    python -m benchmarks.run train inference --cases=digits,cifar128 --rounds=20 --out=out/benchmarks

Every figure is a ratio from one run in which both sides alternate: the median over the rounds. PyTorch comes with `pip install octet[benchmarks]`.
"""

import argparse
import functools

from benchmarks import cases, results


def questions(arguments):
  """dict of name → function that returns its rows."""
  # Not at the top: the processes of the sides import this module, and shall have in memory what is theirs alone.
  from benchmarks import checkpoint_stall, endurance, inference, input_pipelines, start_up, train

  return {
      "train": functools.partial(train.measure, arguments.cases, arguments.rounds),
      "inference": functools.partial(inference.measure, arguments.cases, arguments.rounds),
      "input": functools.partial(input_pipelines.measure, arguments.tfds, arguments.flowers, arguments.rounds),
      "start": functools.partial(start_up.measure, arguments.rounds),
      "checkpoint": functools.partial(checkpoint_stall.measure, arguments.rounds),
      "endurance": functools.partial(endurance.measure, arguments.rounds),
  }


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("names", nargs="*", metavar="NAME", help="which; default: all")
  parser.add_argument("--cases", type=lambda text: text.split(","), default=list(cases.CASES), help=f"of {','.join(cases.CASES)}")
  parser.add_argument("--rounds", type=int, default=10)
  parser.add_argument("--tfds", help="TFDS's folder with cifar10 and tf_flowers; default: its own")
  parser.add_argument("--flowers", help="the same for tf_flowers, if it is elsewhere")
  parser.add_argument("--out", default="out/benchmarks", help="the folder of results.json and results.png; rows of other runs that are there stay")
  arguments = parser.parse_args()
  known = questions(arguments)
  for chosen, names, what in ((arguments.names, known, "benchmark"), (arguments.cases, cases.CASES, "case")):
    if unknown := [name for name in chosen if name not in names]:
      parser.error(f"there is no {what} {', '.join(unknown)}; expected some of {', '.join(names)}")
  for name in arguments.names or known:
    rows = known[name]()
    results.show(rows)
    results.add(rows, arguments.out)
  print(f"Written to {arguments.out}.")


if __name__ == "__main__":
  main()
