"""Sets matplotlib up for Octet's pictures, and turns them into <svg> elements for HTML pages.

with svg.figure_class(svg.TEXT_COLOR) as figure_class:
  figure = figure_class(figsize=(4.6, 3.1))
  ...
  text = svg.element(figure, "loss by step")
"""

import contextlib
import html
import io
import logging
import re
from collections.abc import Iterator
from typing import Any

from trainer import errors
from trainer.cli import installation

# A placeholder for the text colour of the page around a picture. `element` replaces it by
# currentColor; matplotlib does not know that name.
TEXT_COLOR = "#010203"

_COLORED = (
  "text.color",
  "axes.labelcolor",
  "axes.edgecolor",
  "xtick.color",
  "ytick.color",
  "grid.color",
)


@contextlib.contextmanager
def figure_class(text_color: str = "black") -> Iterator[Any]:
  """Yields matplotlib's Figure class, with the settings of Octet's pictures inside the block.

  Args:
    text_color: of text, axes and grid. With TEXT_COLOR, an SVG has letters as text, otherwise as
      paths that look the same everywhere.

  Raises:
    SettingError: matplotlib is missing.
  """
  try:
    import matplotlib
    from matplotlib import figure
  except ImportError as error:
    raise errors.SettingError(
      f"Pictures need matplotlib: {installation.command('plot')} ({error})."
    ) from error
  logging.getLogger("matplotlib").setLevel(logging.WARNING)  # It logs the fonts that it finds.
  # Figure without pyplot: pyplot would keep each figure and may need a display.
  settings: dict[Any, Any] = {
    **matplotlib.rcParamsDefault,  # The user's matplotlibrc has no effect.
    **dict.fromkeys(_COLORED, text_color),
    "svg.hashsalt": "octet",  # The same ids in each run, so that equal curves give equal files.
    "svg.fonttype": "none" if text_color == TEXT_COLOR else "path",
    "text.parse_math": False,  # A $ in the name of a run, metric or parameter is no formula.
    "font.size": 10,
  }
  with matplotlib.rc_context(settings):
    yield figure.Figure


def element(figure: Any, title: str) -> str:
  """Returns a figure as an <svg> element that fits the page's width and text colour.

  Args:
    figure: of `figure_class(TEXT_COLOR)`, inside of its block.
    title: for screen readers.
  """
  written = io.StringIO()
  figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
  text = written.getvalue()
  text = text[text.index("<svg") :]
  # Every picture has the same ids, and a page must not have an id twice. Nothing refers to these.
  text = re.sub(r'<g id="[^"]*"', "<g", text)
  text = re.sub(r' (width|height)="[^"]*"', "", text, count=2)  # Only the size of the <svg> itself.
  text = text.replace(TEXT_COLOR, "currentColor")
  return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1)
