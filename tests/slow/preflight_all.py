"""Compiles the three steps of every shipped experiment for TPUs and writes the table of results.

    python -m tests.slow.preflight_all --results=out/preflight  all of them: an hour or two
    python -m tests.slow.preflight_all --results=out/preflight --only=digits.gin  one, beside those
                                                                                  that are there

Needs the extra [preflight]. The results folder keeps the report of each step, experiment and
topology as JSON, and a restarted run reuses it. table.md there has a row for each report. Random
batches of the same shapes replace data that need a download: a compiler sees only shapes and
dtypes.
"""

import argparse
import json
import pathlib
import sys

import gin

from trainer import config
from trainer.preflight import bindings, check, compiler, report, topology
from trainer.settings import kinds

ROOT = pathlib.Path(__file__).parents[2]
TOPOLOGIES = ("v3-8", "v5e-8")
SLICES = {"cifar10_cnn.gin": ("v3-512",)}


def stand_in(shape, classes, key="image", dtype="float32"):
  """Returns bindings that replace an experiment's data by random batches."""
  return (
    "import input_pipelines.random_inputs",
    "run.train_input_fn = @random_inputs.input_fn",
    "run.eval_input_fn = @random_inputs.input_fn",
    f'random_inputs.input_fn.features = {{"{key}": ({shape}, "{dtype}")}}',
    f"random_inputs.input_fn.classes = {classes}",
    "random_inputs.input_fn.batches = 1",
  )


# Its vocabulary is a user's file: make one of 10,000 words, each a number.
WORDS = 10_000

AIR = (*stand_in((32, 32, 3), 10), "cifar10_air.model_fn.images = @random_inputs.input_fn")

BINDINGS = {
  "fashion_mnist_cnn.gin": stand_in((28, 28, 1), 10),
  "cifar10_air94.gin": AIR,
  "cifar10_air95.gin": AIR,
  "cifar10_cnn.gin": stand_in((32, 32, 3), 10),
  "cifar10_cnn_best.gin": stand_in((32, 32, 3), 10),
  "flowers_resnet50.gin": stand_in((224, 224, 3), 5),
  "flowers_resnet50_short.gin": stand_in((64, 64, 3), 5),
  "flowers_vgg16.gin": stand_in((224, 224, 3), 5),
  "flowers_xception.gin": stand_in((299, 299, 3), 5),
  "transformer_classifier.gin": (
    *stand_in((128,), 2, "tokens", "int32"),
    'TRAIN_FILE = ""',
    'TEST_FILE = ""',
    'VOCABULARY_FILE = "{results}/words.txt"',
  ),
}


PAGE = """# What the TPU compiler says of the shipped experiments

`python -m tests.slow.preflight_all` writes this page. Each row is a compiled program for one core of a TPU; nobody has run it on a TPU.

| column | meaning |
|---|---|
| TPU | the topology: v3-8 has 8 cores, v3-512 has 512 |
| batch a core | the batch of one core |
| steps a program | the steps that a TPU runs in one program; in an evaluation or prediction, at most the batches of the input |
| s | seconds for tracing, lowering and compiling on two CPU cores, beside other work |
| memory a core, of | the memory that the program needs, with its input, and the memory of a core |
| input | the batches of one core for all steps of a program |
| all-reduced | the bytes that the cores add up in a step, and the number of all-reduces |
| trainable | the bytes of the trainable variables, and so of their gradients. The compiler adds up equal gradients once: those of the offsets of two batch norms with added outputs, as in residual blocks |

Compiler: {compiler}. Experiments without a row:
{left}.

| experiment | step | TPU | batch a core | steps a program | result | s | memory a core | of | input | MFLOP an example | all-reduced | trainable |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
{rows}
"""  # noqa: E501


def load(name, results):
  """Loads a gin file with replacements for its data, and returns the experiment."""
  config.clear()
  gin.clear_config()
  config.load(
    [f"gin_configs/{name}"],
    [binding.replace("{results}", str(results)) for binding in BINDINGS.get(name, ())],
  )
  return bindings.from_gin()


def check_experiment(name, missing, results):
  """Runs a gin file's steps through the stages; keeps each report at once.

  Args:
    name: the gin file.
    missing: pairs (topology, step) to check.
    results: the folder of the reports.

  Yields:
    (topology, step, passed).
  """
  print(name, flush=True)
  experiment = load(name, results)
  # The work before compiling happens once for all topologies.
  checker = check.Check(experiment, timeout_seconds=3600, search_batch="never", tell=_tell)
  for topology_name, kind in missing:
    step = checker.check_step(kind, topology.find(topology_name))
    report_path(name, topology_name, kind, results).write_text(
      json.dumps(report.as_dict(step), indent=2) + "\n"
    )
    yield topology_name, kind, not step.failed


def _tell(step, stage, value):
  print(
    f"  {step.topology.name} {step.kind}: {stage} {'FAILED' if value is None else f'{value:.1f}'}",
    flush=True,
  )


def report_path(name, topology_name, kind, results):
  return results / f"{name}.{topology_name}.{kind}.json"


def shipped():
  """Returns the gin files of the shipped experiments, the large ones last."""
  names = (path.name for path in (ROOT / "gin_configs").glob("*.gin"))
  return sorted(names, key=lambda name: (name.startswith("flowers"), name))


def table(results):
  """Returns the page in Markdown."""
  cases = [
    (name, topology_name, kind)
    for name in sorted(shipped())
    for topology_name in (*TOPOLOGIES, *SLICES.get(name, ()))
    for kind in kinds.Kind
  ]
  reports: list[tuple] = []
  missing: dict[str, set[str]] = {}
  for name, topology_name, kind in cases:
    path = report_path(name, topology_name, kind, results)
    stem = name.removesuffix(".gin")
    if path.exists():
      reports.append((stem, json.loads(path.read_text())))
    else:
      missing.setdefault(stem, set()).add(topology_name)
  versions = {
    f"{name} {version}" for _, step in reports for name, version in step.get("versions", {}).items()
  }
  compiled = {name for name, _ in reports}
  left = [
    f"{name} ({', '.join(sorted(where))})" if name in compiled else name
    for name, where in missing.items()
  ]
  return PAGE.format(
    compiler=", ".join(sorted(versions)),
    left=", ".join(left) or "none",
    rows="\n".join("| " + " | ".join([name, *_cells(step)]) + " |" for name, step in reports),
  )


def _cells(step):
  needed = step.get("allocated_bytes") or step.get("needed_bytes")
  reduces = step.get("all_reduces") or {}
  reduced = (
    f"{reduces['bytes'] / 2**20:.3f} MiB in {reduces['count']}" if reduces.get("count") else ""
  )
  trainable = f"{reduces['trainable_bytes'] / 2**20:.3f} MiB" if reduces.get("count") else ""
  loop = step.get("loop")
  return [
    step["step"],
    step["topology"],
    str(step["per_core_batch"]),
    str(loop["steps_per_program"]) if loop else "",
    "passed" if step["passed"] else f"**failed: {step['failed_stage']}**",
    f"{sum(step['stage_seconds'].values()):.0f}",
    f"{needed / 2**20:,.1f} MiB" if needed else "",
    f"{step['available_bytes'] / 2**30:.2f} GiB",
    f"{loop['stacked_input_bytes'] / 2**20:,.1f} MiB" if loop else "",
    f"{step['flops_per_example'] / 1e6:,.3f}" if "flops_per_example" in step else "",
    reduced,
    trainable,
  ]


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--results", type=pathlib.Path, required=True, help="folder for the JSON reports"
  )
  parser.add_argument("--only", nargs="*", help="gin files, by their names")
  parser.add_argument("--topology", nargs="*", default=TOPOLOGIES)
  parser.add_argument("--steps", nargs="*", default=list(kinds.Kind))
  parser.add_argument("--again", action="store_true", help="also what is there")
  arguments = parser.parse_args()
  compiler.require_extra([topology.find(name) for name in arguments.topology])
  results = arguments.results.resolve()
  results.mkdir(parents=True, exist_ok=True)
  (results / "words.txt").write_text("".join(f"{word}\n" for word in range(WORDS)))
  failed = []
  for name in arguments.only or shipped():
    missing = [
      (topology_name, kind)
      for kind in arguments.steps
      for topology_name in (*arguments.topology, *SLICES.get(name, ()))
      if arguments.again or not report_path(name, topology_name, kind, results).exists()
    ]
    for topology_name, kind, passed in check_experiment(name, missing, results) if missing else ():
      (results / "table.md").write_text(table(results))
      if not passed:
        failed.append(f"{name} {kind} on {topology_name}")
  (results / "table.md").write_text(table(results))
  if failed:
    sys.exit(f"Not every step passed: {', '.join(failed)}")


if __name__ == "__main__":
  main()
