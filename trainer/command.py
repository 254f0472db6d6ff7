"""How a command of Octet runs: flags, log lines, and mistakes told without a traceback.

    def main(argv):
      ...

    if __name__ == "__main__":
      command.run(main)

What it leaves with: 0; 1 for a crash; 2 for a mistake that the message tells how to mend (a flag,
or an errors.OctetError); 130 after Ctrl-C.
"""

import functools
import logging
import os
import pathlib
import sys

from absl import app, flags
from absl import logging as absl_logging

from trainer import errors

_DEBUG = flags.DEFINE_bool("debug", False, "Show where in the program an error comes from.")

_HELP = ("--help", "-help", "-h", "-?", "--helpshort", "--helpfull")


def run(main, positional=False):
  """Parses the flags, calls main(argv), and leaves the process.

  argv has the program's name, and what is no flag where `positional` allows it.
  """
  # TensorFlow reads this when it is imported: its messages about the machine would hide the lines
  # that are about the run.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  # --help shows the docstring and the key flags of the module that runs as a program. For a
  # package, that is __main__.py, which has neither.
  module = sys.modules[main.__module__]
  if module is not sys.modules["__main__"]:
    sys.modules["__main__"].__doc__ = module.__doc__
    flags.adopt_module_key_flags(module)
  flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS["debug"])
  app.run(
    lambda argv: _call(main, argv), flags_parser=functools.partial(_parse, positional=positional)
  )


def message(error):
  """The text of an errors.OctetError, and one line on its cause."""
  error = original(error)
  text = str(error)
  if error.__cause__ is not None:
    cause = original(error.__cause__)
    line = next(iter(str(cause).splitlines()), "")
    if line not in text:
      text += f"\n  caused by {type(cause).__name__}: {line}"
  return text


def original(error):
  """The error itself where gin raised another in its place, of a class that it derives and with
  a text that ends in "In call to configurable ...".
  """
  while (
    error.__suppress_context__
    and error.__cause__ is None
    and type(error).__bases__ == (type(error.__context__),)
  ):
    error = error.__context__
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
  if len(rest) > 1 and not positional:
    _fail(f"unexpected argument {rest[1]!r}: flags are given as --name=value (--help lists them)")
  return rest


def _call(main, argv):
  handler = absl_logging.get_absl_handler()
  handler.setFormatter(_Lines())
  handler.addFilter(_about_the_run)
  try:
    return main(argv)
  except errors.OctetError as error:
    if _DEBUG.value:
      raise
    _fail(message(error))
  except KeyboardInterrupt as error:
    print("interrupted" + (f": {error}" if error.args else ""), file=sys.stderr)
    sys.exit(130)


def _fail(text):
  print(f"error: {text}", file=sys.stderr)
  sys.exit(2)


def _about_the_run(record):
  """Whether a log record is shown: not what TensorFlow says of its own doings below a warning,
  such as how long it took to write a file.
  """
  return (
    record.levelno > logging.INFO or "tensorflow" not in pathlib.PurePath(record.pathname).parts
  )


class _Lines(logging.Formatter):
  """The time and the message; the level too from warnings on."""

  def __init__(self):
    super().__init__(datefmt="%H:%M:%S")

  def format(self, record):
    level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
    return f"{self.formatTime(record, self.datefmt)} {level}{record.getMessage()}"
