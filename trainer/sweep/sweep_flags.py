"""The flags of `trainer.sweep` and `trainer.sweep_report`. Only their main files import this."""

import os

from absl import flags

from trainer.sweep import study

SWEEP_DIR = flags.DEFINE_string(
  "sweep_dir", None, "The folder of the sweep. An existing sweep resumes."
)
STORAGE = flags.DEFINE_string(
  "storage",
  "",
  "The database, as postgresql://user:password@host/name. Default: SQLite in --sweep_dir.",
)
STUDY = flags.DEFINE_string(
  "study", "", "The sweep's name in the database. Default: the name of the folder --sweep_dir."
)


def database(sweep_dir: str) -> tuple[str, str]:
  """Returns the address of the database, and the sweep's name in it.

  Args:
    sweep_dir: the value of --sweep_dir, absolute.
  """
  return study.url_for(sweep_dir, STORAGE.value), STUDY.value or os.path.basename(sweep_dir)
