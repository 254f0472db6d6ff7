"""Errors that a user can fix: in a setting, an input, a model_fn, a checkpoint.

Each class also derives from the built-in exception for its kind of mistake, so that a program can
catch either. A message says what was given, what was expected, and which flag, argument or gin
name to change. Commands print the message without a traceback (see `trainer.cli.command`).
"""

import re
from collections.abc import Iterator

# The exit code that asks to be started again: EX_TEMPFAIL of BSD's sysexits.h, for a failure that
# may be gone next time.
TRY_AGAIN = 75


class OctetError(Exception):
  """An error whose message says how to fix it.

  Attributes:
    exit_code: that of a command which the error ends. Starting it again gives the same error.
  """

  exit_code = 2


class SettingError(OctetError, ValueError):
  """A flag, gin binding or argument has a value that cannot work."""


class SpecError(OctetError, TypeError):
  """A model_fn or an input_fn returned something other than its contract says."""


class ModelFnError(OctetError, RuntimeError):
  """A model_fn raised an exception.

  The message names the mode, the shapes of its inputs, and the line that failed.
  """


class InputError(OctetError, ValueError):
  """An input_fn failed, its data cannot be used, or it gave no data."""


class CheckpointNotFoundError(OctetError, FileNotFoundError):
  """A checkpoint was needed and there is none."""


class CheckpointError(OctetError, ValueError):
  """A checkpoint cannot be read, or does not hold what the model needs."""


class CheckpointDamagedError(CheckpointError):
  """A file of a checkpoint is missing, cut short or changed."""


class FileDamagedError(OctetError, ValueError):
  """A JSON file is damaged, or cannot be read."""


class OutputError(OctetError, OSError):
  """A file or directory cannot be written."""


class StorageError(OctetError, RuntimeError):
  """The storage of a URL failed for so long that the command gave up.

  Nothing is wrong with the command: the exit code asks for a restart.
  """

  exit_code = TRY_AGAIN


class ExportError(OctetError, ValueError):
  """An exported model gives other results than the model itself; it was not published."""


class ModelDirBusyError(OctetError, RuntimeError):
  """Another training is using the model_dir, or has taken it over."""


class WorkerLostError(OctetError, ConnectionError):
  """Another worker of the cluster has ended, or cannot be reached.

  The exit code asks for a restart of all workers.
  """

  exit_code = TRY_AGAIN


class NonFiniteError(OctetError, ArithmeticError):
  """The loss or a variable became NaN or infinite."""


class VersionError(OctetError, ImportError):
  """The installed version of a library lacks what Octet needs."""


def first_line(error: BaseException) -> str:
  """Returns the first line of an error's message, or the name of its class if it has none.

  It comes without its full stop, and without what TensorFlow puts around it:
  "{{function_node ...}} " and " [Op:...]".
  """
  line = next(iter((getattr(error, "message", None) or str(error)).splitlines()), "")
  return re.sub(r"\{\{.*?\}\} ?| \[Op:\w+\]$", "", line).rstrip(".") or type(error).__name__


def causes(error: BaseException | None) -> Iterator[BaseException]:
  """Yields an exception, and then those that it was raised for."""
  while error is not None:
    yield error
    error = error.__cause__ or error.__context__
