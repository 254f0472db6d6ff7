"""Compares hardware, by the same workloads on each device; or two models, by their evaluations.

  python -m trainer.compare --gin_file=gin_configs/compare/articles.gin --output=out/compare
  python -m trainer.compare --merge laptop.jsonl colab.jsonl --output=out/both
  python -m trainer.compare out/lr1 out/lr2

The same command resumes a comparison and does not repeat measured cases. --merge measures nothing:
it shows the results of several machines in one table. The folders of two runs compare the
models, and not the hardware: see `models`.
"""

import functools
import os

from absl import flags

from trainer import errors
from trainer.cli import command, run_flags
from trainer.compare import models, prices, report, results, runner, summary, workloads
from trainer.config import gin_flags
from trainer.io import local_files

flags.adopt_module_key_flags(gin_flags)
_DEVICES = flags.DEFINE_string(
  "devices",
  "auto",
  "Names with commas between them: cpu, cpu:8, gpu, xla:8, xla:gpu, tpu. auto: cpu, cpu:8, and a "
  "GPU and a TPU if the machine has them.",
)
_OUTPUT = flags.DEFINE_string(
  "output", "out/compare", "The folder of the results. An unfinished comparison there resumes."
)
_MERGE = flags.DEFINE_multi_string(
  "merge", [], "Files of results, results.jsonl of other runs; more may follow, without the flag."
)
_PRICES = flags.DEFINE_string(
  "prices",
  prices.SHIPPED,
  "A CSV file with hardware,per_hour,currency,date,source. Default: old, published prices.",
)
_PRECISION = run_flags.define_precision()
_TPU_TYPE = flags.DEFINE_string(
  "tpu_type",
  "",
  "The type of the TPU, such as v2-8, if the environment does not say it: for prices.",
)
_EVALUATION = flags.DEFINE_string(
  "evaluation", "", "For two runs: the name of the evaluation; empty for the one without a name."
)
_TIMEOUT = flags.DEFINE_float(
  "timeout_seconds", 1800.0, "The longest that one case may take.", lower_bound=1.0
)


def main(argv: list[str]) -> None:
  """Measures or merges, and shows the results.

  Args:
    argv: the program's name, and further files to merge, or the folders of two runs.

  Raises:
    SettingError: a flag, the gin file, the prices or a file of results is wrong.
    OutputError: it cannot write a file.
  """
  # 1. All mistakes surface before the first measurement.
  files = [*_MERGE.value, *argv[1:]]
  if argv[1:] and not _MERGE.value and not gin_flags.GIN_FILE.value:
    print(models.text(argv[1:], _EVALUATION.value))
    return
  if argv[1:] and not _MERGE.value:
    raise errors.SettingError(
      f"Unexpected argument {argv[1]}: give files of results after --merge, and the folders of two "
      "runs alone."
    )
  if bool(files) == bool(gin_flags.GIN_FILE.value):
    raise errors.SettingError(
      "Give --gin_file to measure, or --merge with files of results, and not both. Try: python -m "
      "trainer.compare --gin_file=gin_configs/compare/small.gin --devices=cpu"
    )
  command.require_local(_OUTPUT.value, "--output")
  price_table = prices.read(_PRICES.value)
  local_files.make_folder(_OUTPUT.value, "--output")

  # 2. The rows.
  running = runner.Runner(
    _OUTPUT.value,
    _PRECISION.value,
    _TPU_TYPE.value,
    _TIMEOUT.value,
    tuple(gin_flags.GIN_MODULES.value),
    tell=functools.partial(print, flush=True),
  )
  skipped: dict[str, str] = {}
  if files:
    results.write(running.path, results.merged(map(results.read, files)))
  else:
    skipped = _measure(running)

  # 3. The table and the picture, of all rows in the folder.
  rows = results.merged([results.read_if_there(running.path)])
  found = summary.Summary(rows, price_table)
  picture = os.path.join(_OUTPUT.value, "times.png")
  written = [running.path, *([picture] if report.draw(picture, found) else [])]
  for device, reason in skipped.items():
    print(f"skipped {device}: {reason}")
  print(f"\n{report.text(found)}\n\nWrote {', '.join(written)}")


def _measure(running: runner.Runner) -> dict[str, str]:
  cases = workloads.load(
    gin_flags.GIN_FILE.value, gin_flags.GIN_BINDINGS.value, gin_flags.GIN_MODULES.value
  )
  devices, skipped = running.devices(_DEVICES.value)
  running.measure_missing(cases, devices)
  return skipped
