"""Reports on a sweep, also while it runs: prints a table, writes trials.csv, best.gin, report.html.

  python -m trainer.sweep_report --sweep_dir=out/sweep
  python -m trainer.sweep_report --sweep_dir=out/sweep --storage=postgresql://user:word@host/name

It writes the files to --sweep_dir.
"""

import os

from absl import flags

from trainer import errors
from trainer.io import local_files
from trainer.sweep import page, report, study, sweep_flags

flags.adopt_module_key_flags(sweep_flags)


def main(argv: list[str]) -> None:
  """Reads the sweep from its database and writes the report.

  Raises:
    SettingError: --sweep_dir is missing, or there is no such sweep.
    OutputError: it cannot write a file.
  """
  del argv
  if not sweep_flags.SWEEP_DIR.value:
    raise errors.SettingError(
      "No --sweep_dir. Try: python -m trainer.sweep_report --sweep_dir=out/sweep"
    )
  sweep_dir = os.path.abspath(sweep_flags.SWEEP_DIR.value)
  found = report.Report(*study.Study.read(*sweep_flags.database(sweep_dir)))
  found.print_table()
  local_files.make_folder(sweep_dir, "--sweep_dir")
  written = [os.path.join(sweep_dir, "trials.csv"), os.path.join(sweep_dir, "report.html")]
  found.write_csv(written[0])
  local_files.write(written[1], page.page(found, sweep_dir), "--sweep_dir")
  print("Wrote " + ", ".join([*written, *found.write_bindings(sweep_dir)]))
