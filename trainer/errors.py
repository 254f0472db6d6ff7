"""Errors that a user can fix: in a setting, an input, a model_fn, a checkpoint.

Each class also derives from the built-in exception for its kind of mistake, so a program can catch
either. A message states the given value, the expected value, and the flag, argument or gin name to
change. Commands print the message without a traceback (see `trainer.cli.command`).
"""

import re
from collections.abc import Iterator

# The exit code for "start me again": EX_TEMPFAIL of BSD's sysexits.h, for a temporary failure.
TRY_AGAIN = 75


class OctetError(Exception):
  """An error with a message that says how to fix it.

  Attributes:
    exit_code: the exit code of a command with this error. A restart gives the same error.
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
  """An input_fn failed, or its data are unusable or empty."""


class CheckpointNotFoundError(OctetError, FileNotFoundError):
  """A needed checkpoint is missing."""


class CheckpointError(OctetError, ValueError):
  """A checkpoint is unreadable, or lacks a value that the model needs."""


class CheckpointDamagedError(CheckpointError):
  """A file of a checkpoint is missing, cut short or changed."""


class FileDamagedError(OctetError, ValueError):
  """A JSON file is damaged or unreadable."""


class OutputError(OctetError, OSError):
  """Octet cannot write a file or directory."""


class StorageError(OctetError, RuntimeError):
  """The storage of a URL failed for so long that the command gave up.

  Nothing is wrong with the command: the exit code asks for a restart.
  """

  exit_code = TRY_AGAIN


class ExportError(OctetError, ValueError):
  """An exported model and the model itself give different results; Octet did not publish it."""


class ModelDirBusyError(OctetError, RuntimeError):
  """Another training is using the model_dir, or has taken it over."""


class WorkerLostError(OctetError, ConnectionError):
  """Another worker of the cluster has ended, or is unreachable.

  The exit code asks for a restart of all workers.
  """

  exit_code = TRY_AGAIN


class NonFiniteError(OctetError, ArithmeticError):
  """The loss or a variable became NaN or infinite."""


class VersionError(OctetError, ImportError):
  """The installed version of a library lacks a part that Octet needs."""


def first_line(error: BaseException) -> str:
  """Returns the first line of an error's message, or the name of its class if it has none.

  The line has no full stop, and none of TensorFlow's additions: "{{function_node ...}} " and
  " [Op:...]".
  """
  line = next(iter((getattr(error, "message", None) or str(error)).splitlines()), "")
  return re.sub(r"\{\{.*?\}\} ?| \[Op:\w+\]$", "", line).rstrip(".") or type(error).__name__


def causes(error: BaseException | None) -> Iterator[BaseException]:
  """Yields an exception, then its causes."""
  while error is not None:
    yield error
    error = error.__cause__ or error.__context__
