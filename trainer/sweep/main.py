"""Runs an experiment many times, with gin bindings that a sweep file varies, and finds the best.

    python -m trainer.sweep --gin_file=gin_configs/digits.gin --sweep_dir=out/sweep
        --sweep_file=gin_configs/sweeps/digits.gin --trials=40 --workers=2

The same command continues a sweep: finished trials are not run again, interrupted ones resume. The
exit status is 0; 1 if no trial was completed; 75 after SIGTERM and 130 after Ctrl-C, both of which
let the trials save.
"""

import contextlib
import os
import shlex
import signal
import sys
import tempfile

from absl import flags, logging

from trainer import config, errors
from trainer.cli import command
from trainer.config import gin_flags
from trainer.loop import preemption
from trainer.sweep import engine, grid, machine, settings, study, trial, trial_server
from trainer.sweep import report as report_lib

flags.adopt_module_key_flags(gin_flags)
_SWEEP_FILE = flags.DEFINE_string(
  "sweep_file", None, "The gin file that says what varies, such as gin_configs/sweeps/digits.gin."
)
_SWEEP_DIR = flags.DEFINE_string(
  "sweep_dir", None, "The folder of the sweep. A sweep that is there goes on."
)
_TRIALS = flags.DEFINE_integer(
  "trials", None, "How many trials. Default: 20, or all of a grid.", lower_bound=1
)
_WORKERS = flags.DEFINE_integer(
  "workers",
  1,
  "How many trials this process runs at a time, each on its share of the cores.",
  lower_bound=1,
)
_STORAGE = flags.DEFINE_string(
  "storage",
  "",
  "The database, as postgresql://user:password@host/name. Default: SQLite in --sweep_dir.",
)
_STUDY = flags.DEFINE_string(
  "study", "", "The sweep's name in the database. Default: the name of the folder --sweep_dir."
)
_JOIN = flags.DEFINE_bool(
  "join", False, "Work along with other processes on a sweep that is there."
)
_DRY_RUN = flags.DEFINE_bool(
  "dry_run", False, "Check everything, print the trials, run none, write nothing."
)
_DEVICE = flags.DEFINE_string("device", "auto", "The trials' --device.")
_PRECISION = flags.DEFINE_enum(
  "precision", "float32", ["float32", "bfloat16"], "The trials' --precision."
)
_SEED = flags.DEFINE_integer("seed", None, "The trials' --seed.")
_START = flags.DEFINE_enum(
  "start",
  "fork",
  ["fork", "spawn"],
  "fork: trials start from a process that has TensorFlow imported; spawn: afresh.",
)
_LEASE_SECONDS = flags.DEFINE_float(
  "lease_seconds",
  60.0,
  "After how long a silent process of another machine is taken for dead, "
  "and its trials are taken up.",
  lower_bound=1.0,
)


def main(argv: list[str]) -> None:
  """Runs a sweep, or with --dry_run prints its trials.

  Raises:
    SettingError: a flag, the sweep file or a binding is wrong.
    OutputError: a file or the database cannot be written.
  """
  del argv
  # 1. Check the flags and read the sweep file, before TensorFlow is imported.
  if (
    not gin_flags.GIN_FILE.value
    or not _SWEEP_FILE.value
    or not (_SWEEP_DIR.value or _DRY_RUN.value)
  ):
    raise errors.SettingError(
      "Give --gin_file, --sweep_file and --sweep_dir, as in: python -m trainer.sweep "
      "--gin_file=gin_configs/digits.gin "
      "--sweep_file=gin_configs/sweeps/digits.gin --sweep_dir=out/sweep --trials=40 --workers=2"
    )
  command.require_local(_SWEEP_DIR.value or "", "--sweep_dir")
  sweep_dir = os.path.abspath(_SWEEP_DIR.value or "sweep")
  asked = settings.load(_SWEEP_FILE.value, gin_flags.GIN_MODULES.value)
  points = len(asked.space.points) if isinstance(asked.space, grid.Grid) else None
  count = min(_TRIALS.value or points, points) if points else _TRIALS.value or 20
  slots = machine.slots(_WORKERS.value, _DEVICE.value)
  common = [
    *(f"--gin_file={path}" for path in gin_flags.GIN_FILE.value),
    *trial.as_flags(gin_flags.GIN_BINDINGS.value),
  ]
  if gin_flags.GIN_MODULES.value != [config.trust.FOLDER]:
    common.append(f"--gin_modules={','.join(gin_flags.GIN_MODULES.value)}")
  common += [f"--device={_DEVICE.value}", f"--precision={_PRECISION.value}"] + (
    [] if _SEED.value is None else [f"--seed={_SEED.value}"]
  )

  # 2. A dry run: load every value of every binding once, and print the trials.
  if _DRY_RUN.value:
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(_starter(folder)) as starter:
      _check(starter, asked)
    report_lib.print_trials(
      asked,
      lambda number, own: trial.command(
        trial.arguments(common, sweep_dir, number, [*asked.bindings, *own])
      ),
      count,
    )
    return

  # 3. Open the database, and the sweep in it.
  definition = {
    **asked.definition(),
    "gin_file": list(gin_flags.GIN_FILE.value),
    "gin_bindings": list(gin_flags.GIN_BINDINGS.value),
    "precision": _PRECISION.value,
    "seed": _SEED.value,
  }
  url = study.url_for(sweep_dir, _STORAGE.value)
  name = _STUDY.value or os.path.basename(sweep_dir)
  trials = study.Study.open(url, name, asked, definition, _JOIN.value, _LEASE_SECONDS.value)
  if not _JOIN.value and (others := trials.leases.other_pids()):
    raise errors.SettingError(
      f"The sweep {name!r} is being run by process {others[0]} of this "
      "machine; give --join to work along with it."
    )
  starter = _starter(sweep_dir)
  try:
    _check(starter, asked)
    # 4. Run the trials.
    engine.Engine(trials, starter, slots, sweep_dir, common, count, _LEASE_SECONDS.value).run()
  except engine.SweepInterrupted as stopped:
    logging.info(
      "%s: %d of %d trials are not finished; the same command goes on.",
      stopped,
      trials.count_unfinished(count),
      count,
    )
    sys.exit(preemption.EXIT_CODE if stopped.number == signal.SIGTERM else 130)
  except study.database_errors() as error:
    raise errors.OutputError(
      f"The database {study.without_password(url)} cannot be used any more: "
      f"{error.__cause__ or error} (--storage). The same command goes on."
    ) from error
  finally:
    starter.close()

  # 5. Show the results.
  report = report_lib.Report(trials, definition)
  report.print_table()
  if not report.best():
    raise SystemExit(
      f"No trial came to its end: the log of each is in {sweep_dir}/trials/<number>/log.txt."
    )
  shown = ["python", "-m", "trainer.sweep_report", f"--sweep_dir={_SWEEP_DIR.value}"]
  if _STORAGE.value and "@" not in _STORAGE.value:  # which would tell logs a password
    shown.append(f"--storage={_STORAGE.value}")
  shown += [f"--study={_STUDY.value}"] if _STUDY.value else []
  logging.info(
    "Next:\n  the report and its figures\n    %s\n  the best again\n%s",
    shlex.join(shown),
    "\n".join(
      f"    {report.command(best, sweep_dir, path)}"
      for best, path in zip(report.best(), report.write_bindings(sweep_dir), strict=True)
    ),
  )


def _starter(sweep_dir):
  try:
    os.makedirs(sweep_dir, exist_ok=True)
  except OSError as error:
    raise errors.OutputError(
      f"Cannot make the folder {sweep_dir} (--sweep_dir): {error}"
    ) from error
  return trial_server.Starter(_START.value, os.path.join(sweep_dir, f"server-{os.getpid()}.log"))


def _check(starter, asked):
  """Raises SettingError if a value that a trial may have does not load."""
  samples = asked.space.samples()
  rows = [
    [
      *gin_flags.GIN_BINDINGS.value,
      *asked.bindings,
      *(f"{key} = {texts[min(index, len(texts) - 1)]}" for key, texts in samples.items()),
    ]
    for index in range(max(len(texts) for texts in samples.values()))
  ]
  mistake = starter.check(gin_flags.GIN_FILE.value, rows, gin_flags.GIN_MODULES.value)
  if mistake:
    raise errors.SettingError(f"{_SWEEP_FILE.value}: a trial would not start. {mistake}")
