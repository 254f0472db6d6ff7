"""Fills HTML templates. The pages need no network and no script, and follow light or dark mode.

    html_page.render("plot/run.html", title="Run digits", results=[...])

A page is a Jinja2 template in the folder `templates` of the room that fills it. Templates extend
"plot/frame.html"; "plot/macros.html" has the table, and the script that lets a reader sort it.
Jinja escapes text unless a template says `safe`. The filter `memory_size` comes from
`trainer.cli.formatting`.
"""

import functools
import pathlib
from typing import Any

import jinja2

from trainer import errors
from trainer.cli import formatting
from trainer.io import paths

_ROOMS = pathlib.Path(__file__).resolve().parents[1]


def render(template: str, **values: Any) -> str:
  """Returns the text of a page.

  Args:
    template: "<room>/<file>", of a file in trainer/<room>/templates.
    **values: for the template; each template needs a "title".

  Raises:
    jinja2.UndefinedError: the template needs a missing value.
  """
  return _environment().get_template(template).render(**values)


def save(path: str, page: str) -> None:
  """Writes a page.

  Raises:
    OutputError: it cannot write the file.
    SettingError: the path is of a file system that only TensorFlow knows.
  """
  try:
    # Pages say that they are in UTF-8; the system's own encoding may be another one. A file's name
    # may have bytes that UTF-8 lacks: "?" stands for them.
    paths.path(path).write_bytes(page.encode(errors="replace"))
  except OSError as error:
    raise errors.OutputError(f"Cannot write {path} (--html): {error}") from error


@functools.cache
def _environment() -> jinja2.Environment:
  folders = {path.parent.name: str(path) for path in _ROOMS.glob("*/templates")}
  loaders = {room: jinja2.FileSystemLoader(folder) for room, folder in folders.items()}
  made = jinja2.Environment(
    loader=jinja2.PrefixLoader(loaders),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
  )
  made.filters["memory_size"] = formatting.memory_size
  return made
