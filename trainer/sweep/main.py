"""Runs an experiment many times, with gin bindings that a sweep file varies, and finds the best.

    python -m trainer.sweep --gin_file=gin_configs/digits.gin --sweep_dir=out/sweep
        --sweep_file=gin_configs/sweeps/digits.gin --trials=40 --workers=2

The same command resumes a sweep: it does not repeat finished trials, and interrupted trials resume.
The exit status is 0; 1 without a complete trial; 75 after SIGTERM and 130 after Ctrl-C. After both
signals, the trials save.
"""

import contextlib
import os
import shlex
import signal
import sys
import tempfile

from absl import flags, logging

from trainer import config, errors
from trainer.cli import command, run_flags
from trainer.config import gin_flags
from trainer.io import local_files
from trainer.loop import preemption
from trainer.sweep import (
  engine,
  grid,
  machine,
  report,
  settings,
  study,
  sweep_flags,
  trial,
  trial_server,
)

flags.adopt_module_key_flags(gin_flags)
flags.adopt_module_key_flags(sweep_flags)
_SWEEP_FILE = flags.DEFINE_string(
  "sweep_file", None, "The gin file of the space or grid, such as gin_configs/sweeps/digits.gin."
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
_JOIN = flags.DEFINE_bool("join", False, "Work on an existing sweep, along with other processes.")
_DRY_RUN = flags.DEFINE_bool(
  "dry_run", False, "Check everything, print the trials, run none, write nothing."
)
_DEVICE = run_flags.define_device()
_PRECISION = run_flags.define_precision()
_SEED = run_flags.define_seed()
_START = flags.DEFINE_enum(
  "start",
  "fork",
  ["fork", "spawn"],
  "fork: fork trials from a process with TensorFlow imported; spawn: start each anew.",
)
_LEASE_SECONDS = flags.DEFINE_float(
  "lease_seconds",
  study.LEASE_SECONDS,
  "A process of another machine counts as dead after this many silent seconds, and others take its "
  "trials.",
  lower_bound=1.0,
)


def main(argv: list[str]) -> None:
  """Runs a sweep, or with --dry_run prints its trials.

  Raises:
    SettingError: a flag, the sweep file or a binding is wrong.
    OutputError: it cannot write a file or the database.
  """
  del argv
  # 1. Check the flags and read the sweep file, before TensorFlow's import takes seconds.
  sweep_dir, sweep_file = _checked_paths()
  asked = settings.load(sweep_file, gin_flags.GIN_MODULES.value)
  points = len(asked.space.points) if isinstance(asked.space, grid.Grid) else None
  count = min(_TRIALS.value or points, points) if points else _TRIALS.value or 20
  slots = machine.slots(_WORKERS.value, _DEVICE.value)

  if asked.seeds and _SEED.value is not None:
    raise errors.SettingError(
      f"--seed={_SEED.value}: sweep.seeds gives the seeds of the runs, {list(asked.seeds)}."
    )

  # 2. A dry run: load every value of every binding once, and print the trials.
  if _DRY_RUN.value:
    with tempfile.TemporaryDirectory() as folder, _starter(folder) as starter:
      _check(starter, asked)
    report.print_trials(
      asked,
      lambda number, own: trial.command(
        trial.arguments(
          _common_flags(), sweep_dir, number, [*asked.bindings, *own], next(iter(asked.seeds), None)
        )
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
  url, name = sweep_flags.database(sweep_dir)
  trials = study.Study.open(url, name, asked, definition, _JOIN.value, _LEASE_SECONDS.value)
  if not _JOIN.value and (others := trials.other_pids()):
    raise errors.SettingError(
      f"Process {others[0]} of this machine runs the sweep {name!r}; give --join to work along "
      "with it."
    )
  if not _JOIN.value:
    trials.make_trials(count)

  # 4. Run the trials. `_check` also imports the modules of the gin files in the server, before it
  # forks the first trial.
  with _starter(sweep_dir) as starter, _told_of_failures(trials, count, url):
    _check(starter, asked)
    engine.Engine(
      trials, starter, slots, sweep_dir, _common_flags(), count, _LEASE_SECONDS.value
    ).finish_trials()

  # 5. Show the results.
  found = report.Report(trials, definition)
  paths = found.write_bindings(sweep_dir)
  _show(found, sweep_dir, paths)


def _checked_paths():
  """Returns the absolute --sweep_dir, and --sweep_file; SettingError if a flag is missing."""
  sweep_dir = sweep_flags.SWEEP_DIR.value
  if not gin_flags.GIN_FILE.value or not _SWEEP_FILE.value or not (sweep_dir or _DRY_RUN.value):
    raise errors.SettingError(
      "Give --gin_file, --sweep_file and --sweep_dir, as in: python -m trainer.sweep "
      "--gin_file=gin_configs/digits.gin "
      "--sweep_file=gin_configs/sweeps/digits.gin --sweep_dir=out/sweep --trials=40 --workers=2"
    )
  command.require_local(sweep_dir or "", "--sweep_dir")
  return os.path.abspath(sweep_dir or "sweep"), _SWEEP_FILE.value


def _common_flags():
  """Returns the flags of trainer.main for all trials."""
  common = [f"--gin_file={path}" for path in gin_flags.GIN_FILE.value]
  common += trial.as_flags(gin_flags.GIN_BINDINGS.value)
  if gin_flags.GIN_MODULES.value != [config.trust.FOLDER]:
    common.append(f"--gin_modules={','.join(gin_flags.GIN_MODULES.value)}")
  common += [f"--device={_DEVICE.value}", f"--precision={_PRECISION.value}"]
  return common + ([] if _SEED.value is None else [f"--seed={_SEED.value}"])


@contextlib.contextmanager
def _starter(folder):
  """Yields a trial_server.Starter; its trials end with the block."""
  local_files.make_folder(folder, "--sweep_dir")
  log = os.path.join(folder, f"server-{os.getpid()}.log")
  with contextlib.closing(trial_server.Starter(_START.value, log)) as starter:
    yield starter


@contextlib.contextmanager
def _told_of_failures(trials, count, url):
  """Adds to a signal, and to a lost database, that the same command resumes."""
  try:
    yield
  except engine.SweepInterrupted as stopped:
    logging.info(
      "%s: %d of %d trials have not finished; the same command resumes.",
      stopped,
      trials.count_unfinished(count),
      count,
    )
    sys.exit(preemption.EXIT_CODE if stopped.number == signal.SIGTERM else 130)
  except study.database_errors() as error:
    raise errors.OutputError(
      f"Octet lost the connection to the database {study.without_password(url)}: "
      f"{error.__cause__ or error} (--storage). The same command resumes."
    ) from error


def _check(starter, asked):
  """Raises SettingError if a possible value of a trial does not load."""
  for key in asked.overridden(gin_flags.GIN_BINDINGS.value):
    logging.warning(
      "--gin_bindings sets %s without effect: %s sets it, too. Change it there.",
      key,
      _SWEEP_FILE.value,
    )
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


def _show(found, sweep_dir, paths):
  """Prints the results, and the next useful commands."""
  found.print_table()
  if not found.best():
    if "complete" in found.counts():
      raise SystemExit("No trial keeps sweep.constraints; the table lists the violations of each.")
    raise SystemExit(
      f"No trial finished: the log of each is in {sweep_dir}/trials/<number>/log.txt."
    )
  storage, name = sweep_flags.STORAGE.value, sweep_flags.STUDY.value
  shown = ["python", "-m", "trainer.sweep_report", f"--sweep_dir={sweep_flags.SWEEP_DIR.value}"]
  if storage and "@" not in storage:  # The address with its password must not reach a log.
    shown.append(f"--storage={storage}")
  shown += [f"--study={name}"] if name else []
  logging.info(
    "Next:\n  the report and its figures\n    %s\n  the best again\n%s",
    shlex.join(shown),
    "\n".join(
      f"    {found.command(best, sweep_dir, path)}"
      for best, path in zip(found.best(), paths, strict=True)
    ),
  )
