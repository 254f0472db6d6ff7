"""All benchmarks, or those that are named: prints one table, writes results.json and results.png.

    python -m benchmarks.run
    python -m benchmarks.run train inference --cases=digits,cifar128 --rounds=20 --out=out/benchmarks

Every figure is a ratio from one run in which both sides alternate: the median over the rounds, with quartiles. Which must be how much stands beside it.
PyTorch comes with `pip install octet[benchmarks]`.
"""

import argparse

from benchmarks import cases, results, train

QUESTIONS = {
    "train": lambda arguments: train.measure(arguments.cases, arguments.rounds),
}


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(QUESTIONS)}; default: all")
  parser.add_argument("--cases", type=lambda text: text.split(","), default=list(cases.CASES), help=f"of {','.join(cases.CASES)}")
  parser.add_argument("--rounds", type=int, default=10)
  parser.add_argument("--out", default="out/benchmarks", help="the folder of results.json and results.png")
  arguments = parser.parse_args()
  for chosen, known, what in ((arguments.names, QUESTIONS, "benchmark"), (arguments.cases, cases.CASES, "case")):
    if unknown := sorted(set(chosen) - set(known)):
      parser.error(f"there is no {what} {', '.join(unknown)}; expected some of {', '.join(known)}")
  rows = []
  for name in arguments.names or QUESTIONS:
    rows.extend(QUESTIONS[name](arguments))
    results.show([row for row in rows if row.question == name])
    results.write(rows, arguments.out)
  print(f"Written to {arguments.out}.")


if __name__ == "__main__":
  main()
