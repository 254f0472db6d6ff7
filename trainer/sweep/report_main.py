"""Reports on a sweep, also while it runs: prints a table, writes trials.csv, best.gin, report.html.

  python -m trainer.sweep_report --sweep_dir=out/sweep
  python -m trainer.sweep_report --sweep_dir=out/sweep --storage=postgresql://user:word@host/name

The files are written to --sweep_dir.
"""

import os

from absl import flags

from trainer import errors
from trainer.sweep import page, report, study

_SWEEP_DIR = flags.DEFINE_string(
  "sweep_dir", None, "The folder of the sweep, as for trainer.sweep. The files are written there."
)
_STORAGE = flags.DEFINE_string("storage", "", "The database, where it is not that in --sweep_dir.")
_STUDY = flags.DEFINE_string(
  "study", "", "The sweep's name in the database. Default: the name of the folder --sweep_dir."
)


def main(argv: list[str]) -> None:
  """Reads the sweep from its database and writes the report.

  Raises:
    SettingError: --sweep_dir is missing, or there is no such sweep.
    OutputError: a file cannot be written.
  """
  del argv
  if not _SWEEP_DIR.value:
    raise errors.SettingError(
      "No --sweep_dir. Try: python -m trainer.sweep_report --sweep_dir=out/sweep"
    )
  sweep_dir = os.path.abspath(_SWEEP_DIR.value)
  found = report.Report(
    *study.Study.read(
      study.url_for(sweep_dir, _STORAGE.value), _STUDY.value or os.path.basename(sweep_dir)
    )
  )
  found.print_table()
  try:
    os.makedirs(sweep_dir, exist_ok=True)
  except OSError as error:
    raise errors.OutputError(
      f"Cannot make the folder {sweep_dir} (--sweep_dir): {error}"
    ) from error
  written = [os.path.join(sweep_dir, "trials.csv"), os.path.join(sweep_dir, "report.html")]
  found.write_csv(written[0])
  report.write(written[1], page.page(found, sweep_dir))
  print("Wrote " + ", ".join([*written, *found.write_bindings(sweep_dir)]))
