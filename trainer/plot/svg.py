"""Sets matplotlib up for Octet's pictures, and makes <svg> elements for HTML pages of them.

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

# Stands for the text colour of the page that shows a picture. `element` replaces it by
# currentColor, which matplotlib does not know.
TEXT_COLOR = "#010203"
# The same of the page's background, which frame.html calls --page.
PAGE_COLOR = "#030201"

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
      paths, which look the same wherever they are shown.

  Raises:
    SettingError: matplotlib is not installed.
  """
  try:
    import matplotlib
    from matplotlib import figure
  except ImportError as error:
    raise errors.SettingError(
      f"Pictures need matplotlib: {installation.command('plot')} ({error})."
    ) from error
  logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it logs the fonts that it finds
  # Figure is used without pyplot, which would keep each figure and may need a display.
  settings: dict[Any, Any] = {
    **matplotlib.rcParamsDefault,  # not those of the user's matplotlibrc
    **dict.fromkeys(_COLORED, text_color),
    "svg.hashsalt": "octet",  # the same ids in each run, so that equal curves give equal files
    "svg.fonttype": "none" if text_color == TEXT_COLOR else "path",
    "text.parse_math": False,  # a $ in the name of a run, metric or parameter is no formula
    "font.size": 10,
  }
  with matplotlib.rc_context(settings):
    yield figure.Figure


def element(figure: Any, title: str) -> str:
  """Returns a figure as an <svg> element that fits the page's width and text colour.

  Args:
    figure: of `figure_class(TEXT_COLOR)`, inside of its block.
    title: what a screen reader says.
  """
  written = io.StringIO()
  figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
  text = written.getvalue()
  text = text[text.index("<svg") :]
  # Every picture has the same ids, and a page must not have an id twice. Nothing refers to these.
  text = re.sub(r'<g id="[^"]*"', "<g", text)
  text = re.sub(r' (width|height)="[^"]*"', "", text, count=2)  # only those of the <svg> itself
  text = text.replace(TEXT_COLOR, "currentColor").replace(PAGE_COLOR, "var(--page)")
  return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1)
