"""Runs a command of Octet: parses flags, formats log lines, prints user errors without a traceback.

    def main(argv):
      ...

    if __name__ == "__main__":
      command.run(main)

The exit status is 0; 1 after a crash; 2 after an error that the user can fix (a wrong flag, or an
errors.OctetError); 75 if a restart helps, after the loss of the machine or of another worker; 130
after Ctrl-C.
"""

import functools
import logging
import math
import os
import pathlib
import sys
from collections.abc import Callable

from absl import app, flags
from absl import logging as absl_logging

from trainer import errors
from trainer.cli import formatting

_HELP = ("--help", "-help", "-h", "-?", "--helpshort", "--helpfull")


def run(main: Callable[[list[str]], int | None], positional: bool = False) -> None:
  """Parses the flags, calls main(argv), and exits.

  Args:
    main: the command's function. argv[0] is the program's name; the positional arguments follow.
    positional: whether the command takes positional arguments. Otherwise they are an error.
  """
  # TensorFlow would allocate a GPU's whole memory for a command that needs little of it, or none.
  os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
  # absl's --help shows the docstring and the key flags of __main__. `python -m package` runs
  # package/__main__.py without either. So both come from main's module.
  module = sys.modules[main.__module__]
  # Not at import: `import trainer` imports this module, and programs have a flag `debug`, too.
  flags.DEFINE_bool(
    "debug", False, "Show the place of an error in the program, and TensorFlow's own messages."
  )
  if module is not sys.modules["__main__"]:
    sys.modules["__main__"].__doc__ = module.__doc__
    # Not flags.adopt_module_key_flags: it would adopt them for this module, its caller.
  for flag in [*flags.FLAGS.get_key_flags_for_module(module), flags.FLAGS["debug"]]:
    flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
  app.run(
    lambda argv: _call(main, argv), flags_parser=functools.partial(_parse, positional=positional)
  )


def require_local(path: str, name: str) -> None:
  """Checks that a path is one of this machine, for a command that needs the system's own files.

  Without this, "gs://bucket/x" would become the folder "gs:" here.

  Args:
    path: the path.
    name: of the flag or the argument.

  Raises:
    SettingError: it is a URL.
  """
  if "://" in path:
    raise errors.SettingError(
      f"{name}={path} is a URL: this command needs a folder of the machine, or a mounted one."
    )


def message(error: BaseException) -> str:
  """Returns an error's text, with one line about its cause."""
  error = original(error)
  text = str(error)
  if error.__cause__ is not None:
    cause = original(error.__cause__)
    line = errors.first_line(cause)
    # "Graph execution error:" alone says nothing.
    if str(cause) and line not in text and not line.endswith(":"):
      text += f"\n  caused by {type(cause).__name__}: {line}"
  return text


def original(error: BaseException) -> BaseException:
  """Returns the exception that gin replaced, or the error itself if gin did not replace one.

  gin replaces an exception by one of a derived class, with a text that ends in "In call to
  configurable ...".
  """
  # gin nests: each configurable on the way adds one more such exception.
  while error.__suppress_context__ and error.__cause__ is None:
    replaced = error.__context__
    if replaced is None or type(error).__bases__ != (type(replaced),):
      break
    error = replaced
  return error


def _parse(argv, positional):
  asked = [arg for arg in argv[1:] if arg in _HELP]
  if asked:
    app.usage(shorthelp=asked[0] != "--helpfull", writeto_stdout=True)
    sys.exit(0)
  try:
    rest = flags.FLAGS(argv)
  except flags.Error as error:
    _fail(f"{error} (--help lists the flags)")
  for name, value in flags.FLAGS.flag_values_dict().items():
    # Bounds of absl accept NaN, and no clock or size can be infinite.
    if isinstance(value, float) and not math.isfinite(value):
      _fail(f"--{name}={value}: expected a finite number (--help lists the flags)")
  if len(rest) > 1 and not positional:
    _fail(f"unexpected argument {rest[1]!r}: write flags as --name=value (--help lists them)")
  return rest


def _call(main, argv):
  if flags.FLAGS.debug:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"  # `import trainer` hides TensorFlow's messages.
  handler = absl_logging.get_absl_handler()
  handler.setFormatter(LineFormatter())
  handler.addFilter(_about_the_run)
  try:
    return main(argv)
  except errors.OctetError as error:
    if flags.FLAGS.debug:
      raise
    _fail(message(error), error.exit_code)
  except KeyboardInterrupt as error:
    _print("interrupted" + (f": {error}" if error.args else ""))
    sys.exit(130)


def _fail(text, code=2):
  _print(f"error: {text}")
  sys.exit(code)


def _print(text):
  width = _width()
  print(text if width is None else formatting.fold(text, width, indent=2), file=sys.stderr)


def _width():
  """Returns the columns of the terminal to fill; None without a terminal."""
  columns = formatting.terminal_columns(sys.stderr)
  return None if columns is None else max(columns - formatting.ROOM, 1)


def _about_the_run(record):
  """Whether to show a log record.

  The filter hides TensorFlow's own messages below a warning, such as the time to write a file.
  """
  return (
    record.levelno > logging.INFO or "tensorflow" not in pathlib.PurePath(record.pathname).parts
  )


class LineFormatter(logging.Formatter):
  """Formats a record as its time and message, with the level for warnings and errors.

  On a terminal its lines fit: a `formatting.Fields` omits fields, other text wraps.
  """

  def __init__(self) -> None:
    """Makes the formatter."""
    super().__init__(datefmt="%H:%M:%S")

  def format(self, record: logging.LogRecord) -> str:
    """Returns the line of a record; an exception's traceback follows in further lines."""
    line = self._line(record)
    # logging.exception and exc_info=True outside of an except clause have (None, None, None).
    if record.exc_info and record.exc_info[0]:
      line += f"\n{self.formatException(record.exc_info)}"
    return line

  def _line(self, record):
    level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
    time = self.formatTime(record, self.datefmt)
    head = f"{time} {level}"
    width = _width()
    if width is None:
      return head + record.getMessage()
    match record.args:
      case (formatting.Fields() as fields,):
        return head + fields.fit(width - len(head))
    return formatting.fold(head + record.getMessage(), width, indent=len(time) + 1)
