"""Compares training programs that tensorflow-tpu lowered with those of another TensorFlow.

    python -m tests.slow.lowerings --lower=out/lowered    in an environment with [tpu,preflight]
    python -m tests.slow.lowerings --lower=out/lowered    in one with [cpu,preflight]
    python -m tests.slow.lowerings --compile=out/lowered  in either: both by the same compiler

The first two write the programs of some shipped experiments for v3-8. The third compiles them and
prints a table, and fails where the two differ in what they add up over the cores.
"""

import argparse
import json
import pathlib
import sys

from tests.slow import preflight_all
from trainer.preflight import compiler, hlo, topology
from trainer.preflight import steps as steps_lib
from trainer.programs import hlo_program, lowering
from trainer.settings import kinds

EXPERIMENTS = (
  "digits.gin",
  "conv_op.gin",
  "paradnn_fully_connected.gin",
  "cifar10_cnn.gin",
  "paradnn_residual.gin",
)
V3 = topology.find("v3-8")


def write(folder, names):
  """Lowers the training program of each experiment, as this environment does."""
  for name in names:
    experiment = preflight_all.load(name, folder)
    steps = steps_lib.Steps(
      experiment, V3.replicas, {kind: experiment.per_core(kind, 8) for kind in experiment.kinds()}
    )
    element = steps.call_input_fn(kinds.Kind.TRAIN)
    traced = steps.trace_planned(kinds.Kind.TRAIN, element)
    made = lowering.lower(traced.concrete)
    path = folder / f"{name}.{made.lowering}"
    path.with_suffix(path.suffix + ".hlo").write_bytes(made.hlo)
    path.with_suffix(path.suffix + ".aliases").write_text(json.dumps(made.aliases))
    print(path, flush=True)


def compare(folder):
  """Compiles all that was written; returns the table's rows and the experiments that differ."""
  rows, reduced = [], {}
  for path in sorted(folder.glob("*.hlo")):
    name, way = path.name.removesuffix(".hlo").rsplit(".", 1)
    aliases = json.loads(path.with_suffix(".aliases").read_text())
    made = hlo_program.HloProgram(path.read_bytes(), way, tuple(map(tuple, aliases)))
    compiled = compiler.compile_program(made, V3, 3600)
    if not isinstance(compiled, compiler.Compiled):
      sys.exit(f"{path}: {compiled.message}")
    sums = hlo.all_reduces(compiled.listing.hlo)
    reduced.setdefault(name, set()).add((sums.bytes, sums.replicas))
    rows.append(
      [
        name.removesuffix(".gin"),
        {hlo_program.TPU: "as a TPU does", hlo_program.CPU: "for any device"}[way],
        f"{compiled.listing.allocated_bytes / 2**20:,.1f} MiB",
        f"{compiled.aliased_bytes / 2**20:,.1f} MiB",
        f"{compiled.flops / 1e6:,.2f}",
        f"{compiled.bytes_accessed / 2**20:,.1f} MiB",
        f"{sums.bytes / 2**20:.3f} MiB in {sums.count}",
      ]
    )
    print("| " + " | ".join(rows[-1]) + " |", flush=True)
  return rows, [name for name, found in reduced.items() if len(found) != 1]


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  what = parser.add_mutually_exclusive_group(required=True)
  what.add_argument("--lower", type=pathlib.Path, metavar="FOLDER")
  what.add_argument("--compile", type=pathlib.Path, metavar="FOLDER")
  parser.add_argument("--only", nargs="*", default=EXPERIMENTS, help="gin files, by their names")
  arguments = parser.parse_args()
  compiler.require_extra()
  if arguments.lower:
    arguments.lower.mkdir(parents=True, exist_ok=True)
    write(arguments.lower.resolve(), arguments.only)
    return
  print(
    "| experiment | lowered | memory a core | in place | MFLOP a step | traffic a step | sums |"
  )
  print("|" + "---|" * 7)
  rows, differing = compare(arguments.compile)
  if not rows:
    sys.exit(f"There is no program in {arguments.compile}: --lower writes them.")
  if differing:
    sys.exit(f"The sums over the cores differ: {', '.join(differing)}")


if __name__ == "__main__":
  main()
