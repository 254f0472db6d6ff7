"""Shows Octet's log lines to the user of a Python program or a notebook.

    with console.lines_shown(config.show_progress):
      logging.info("...")  # is printed, although absl hides what is below a warning

A command shows them anyway, and so does a program that has set absl's verbosity: there this module
changes nothing. Lines of other libraries are neither shown nor hidden.

    line = console.LiveLine(renderable, console.of_errors())
    line.show()  # stays below everything that is printed or logged meanwhile
    line.hide()
"""

import contextlib
import importlib.util
import logging
import pathlib
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from absl import logging as absl_logging
from rich import console as rich_console
from rich import live as rich_live

from trainer.cli import command

_OCTET = str(pathlib.Path(command.__file__).parents[1])

_lock = threading.Lock()
_open = 0  # The number of open contexts that show the lines.
_level_before = logging.NOTSET  # Level of absl's logger before the first context.


def someone_looks() -> bool:
  """Returns whether the standard error output is a terminal or a notebook's cell."""
  console = of_errors()
  return console.is_terminal or console.is_jupyter


def of_errors() -> rich_console.Console:
  """Returns a console that writes to the standard error output."""
  # With FORCE_COLOR, as in many CI systems, rich would take any output for a terminal and write its
  # control characters into a log file.
  console = rich_console.Console(
    stderr=True, force_terminal=sys.stderr.isatty(), markup=False, emoji=False, highlight=False
  )
  # The terminal wraps long lines, so that a user can copy them in one piece. A notebook would have
  # a scroll bar instead.
  console.soft_wrap = console.is_terminal
  return console


def can_draw(console: rich_console.Console) -> bool:
  """Returns whether a console can have a LiveLine.

  It needs a terminal with a cursor, or a notebook with the package that draws rich's lines there.
  """
  return console.is_interactive or (
    console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
  )


class LiveLine:
  """A line below all output and log lines.

  A process shows one at a time. A second training's line appears when the first one's goes.

  Args:
    renderable: for rich to draw at each refresh. It must fit in one line.
    console: where to draw.
  """

  _shown: "LiveLine | None" = None

  def __init__(
    self, renderable: rich_console.RenderableType, console: rich_console.Console
  ) -> None:
    self._renderable = renderable
    self._console = console
    self._live: rich_live.Live | None = None
    self._redirected: list[tuple[logging.StreamHandler, TextIO]] = []

  @property
  def is_shown(self) -> bool:
    """Whether the line is on the screen."""
    return self._live is not None

  def show(self) -> None:
    """Shows the line, unless it or another one is visible."""
    with _lock:
      if LiveLine._shown is not None:
        return
      LiveLine._shown = self
    # rich would send a program's output to a file, as with `> out.txt`, to this console.
    redirect_stdout = self._console.is_jupyter or sys.stdout.isatty()
    self._live = rich_live.Live(
      self._renderable,
      console=self._console,
      refresh_per_second=10,
      transient=True,
      redirect_stdout=redirect_stdout,
    )
    streams = [sys.stderr, *([sys.stdout] if redirect_stdout else [])]
    self._live.start()
    # rich replaces sys.stderr and sys.stdout. A log handler keeps its first stream.
    for handler in _stream_handlers():
      if handler.stream in streams:
        replacement = sys.stderr if handler.stream is streams[0] else sys.stdout
        self._redirected.append((handler, handler.setStream(replacement)))
    self._live.refresh()

  def hide(self) -> None:
    """Takes the line away, if it is visible."""
    if self._live is None:
      return
    # rich's streams write as they should after this too, so no log line comes to the live line.
    self._live.stop()
    self._live = None
    for handler, stream in self._redirected:
      handler.setStream(stream)
    self._redirected = []
    with _lock:
      LiveLine._shown = None


def _stream_handlers():
  """Returns all log handlers of the process that write to a stream."""
  loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
  handlers = {handler for logger in loggers for handler in getattr(logger, "handlers", ())}
  # absl's own handler hands its records on to another one.
  handlers.add(absl_logging.get_absl_handler().python_handler)
  return [handler for handler in handlers if isinstance(handler, logging.StreamHandler)]


def are_lines_shown_here() -> bool:
  """Returns whether an open `lines_shown` shows the lines; else the program's settings decide."""
  return _open > 0


@contextlib.contextmanager
def lines_shown(wanted: bool | None) -> Iterator[None]:
  """Shows Octet's lines while the context is open.

  Args:
    wanted: RunConfig.show_progress: None shows them on a terminal and in a notebook.
  """
  shows = someone_looks() if wanted is None else wanted
  with _lock:
    # Another open context has lowered the level: the level is no setting of the program.
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
    # A filter, since the logger asks it before all handlers: the program's handler would show the
    # line once more.
    logger.addFilter(_print)
  _open += 1


def _leave():
  global _open
  logger = absl_logging.get_absl_logger()
  _open -= 1
  if not _open:
    logger.removeFilter(_print)
    if logger.level == logging.INFO:  # Otherwise the program has set it meanwhile.
      logger.setLevel(_level_before)


def _print(record):
  """Prints a line of Octet's; returns whether the logger's handlers get the record."""
  if record.levelno > logging.INFO:
    return True
  if record.pathname.startswith(_OCTET):
    # Look sys.stderr up at each line, since a bar and a notebook replace it.
    print(command.LineFormatter().format(record), file=sys.stderr, flush=True)
  return False
