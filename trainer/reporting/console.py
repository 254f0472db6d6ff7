"""Shows Octet's log lines to a person who runs a Python program or a notebook.

    with console.lines_shown(config.show_progress):
      logging.info("...")  # is printed, although absl hides what is below a warning

A command shows them anyway, and so does a program that has set absl's verbosity: there nothing is
changed. Lines of other libraries are neither shown nor hidden.
"""

import contextlib
import logging
import pathlib
import sys
import threading
from collections.abc import Iterator

from absl import logging as absl_logging
from rich import console as rich_console

from trainer.cli import command

_OCTET = str(pathlib.Path(command.__file__).parents[1])

_lock = threading.Lock()
_open = 0  # how many contexts show the lines
_level_before = logging.NOTSET  # of absl's logger, when the first of them was entered


def someone_looks() -> bool:
  """Returns whether the standard error output is a terminal or that of a notebook's cell."""
  console = rich_console.Console(stderr=True)
  return console.is_terminal or console.is_jupyter


def are_lines_shown_here() -> bool:
  """Returns whether a `lines_shown` shows the lines, not the program's own settings."""
  return _open > 0


@contextlib.contextmanager
def lines_shown(wanted: bool | None) -> Iterator[None]:
  """Shows Octet's lines while the context is open.

  Args:
    wanted: RunConfig.show_progress: None shows them where someone looks.
  """
  shows = someone_looks() if wanted is None else wanted
  with _lock:
    # One that is open already has lowered the level: it is no setting of the program.
    shows = shows and (_open > 0 or not absl_logging.get_absl_logger().isEnabledFor(logging.INFO))
    if shows:
      _enter()
  try:
    yield
  finally:
    if shows:
      with _lock:
        _leave()


def _enter():
  global _open, _level_before
  logger = absl_logging.get_absl_logger()
  if not _open:
    _level_before = logger.level
    logger.setLevel(logging.INFO)
    # A filter, which is asked before all handlers: the program's would show the line once more.
    logger.addFilter(_print)
  _open += 1


def _leave():
  global _open
  logger = absl_logging.get_absl_logger()
  _open -= 1
  if not _open:
    logger.removeFilter(_print)
    if logger.level == logging.INFO:  # else the program has set it meanwhile
      logger.setLevel(_level_before)


def _print(record):
  """Prints a line of Octet's; returns whether the logger's handlers get the record."""
  if record.levelno > logging.INFO:
    return True
  if record.pathname.startswith(_OCTET):
    # sys.stderr is looked up at each line, since a bar and a notebook replace it.
    print(command.LineFormatter().format(record), file=sys.stderr, flush=True)
  return False
