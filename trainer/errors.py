"""Errors for what a user can mend: a setting, an input, a model_fn, a checkpoint.

Each one is also the built-in exception that its kind of mistake calls for, so that a program may
catch either. The message is whole: what was given, what was expected, which flag, argument or gin
name to change. Commands print it without a traceback (see `trainer.main`).
"""


class OctetError(Exception):
  """A mistake that the message tells how to mend."""


class SettingError(OctetError, ValueError):
  """A flag, gin binding or argument has a value that cannot work."""


class SpecError(OctetError, TypeError):
  """A model_fn or an input_fn returned something other than its contract says."""


class ModelFnError(OctetError, RuntimeError):
  """A model_fn raised; the message names the mode, the shapes it was given and the line that
  failed.
  """


class InputError(OctetError, ValueError):
  """An input_fn failed, its data cannot be used, or there is none."""


class CheckpointNotFoundError(OctetError, FileNotFoundError):
  """A checkpoint was needed and there is none."""


class CheckpointError(OctetError, ValueError):
  """A checkpoint cannot be read, or does not hold what the model needs."""


class CheckpointDamagedError(CheckpointError):
  """A file of a checkpoint is missing, cut short or changed."""


class OutputError(OctetError, OSError):
  """A file or directory cannot be written."""


class ExportError(OctetError, ValueError):
  """An export does not give what the model gives; it was not published."""


class ModelDirBusyError(OctetError, RuntimeError):
  """Another training goes on in the model_dir, or has taken it over."""


class WorkerLostError(OctetError, ConnectionError):
  """Another worker of TF_CONFIG is gone."""


class NonFiniteError(OctetError, ArithmeticError):
  """The loss became NaN or infinite."""


class VersionError(OctetError, ImportError):
  """The installed version of a library lacks what Octet needs."""
