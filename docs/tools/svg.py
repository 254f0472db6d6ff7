"""Boxes with text and arrows between them, as SVG."""

import dataclasses
from xml.sax import saxutils

_LINE = 18  # pixels from a line of text to the next
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; text-anchor: middle }
  .title { font-weight: 600; font-size: 15px; text-anchor: start }
  .note { fill: #52606d; font-size: 12px }
  rect { fill: #e8f0fe; stroke: #5b7bb4; rx: 6 }
  .other { fill: #fdf3e1; stroke: #c69749 }
  .group { fill: none; stroke: #9aa5b1; stroke-dasharray: 5 4 }
  path { fill: none; stroke: #7b8794; stroke-width: 1.2 }
"""


@dataclasses.dataclass(frozen=True)
class Box:
  """A box around lines of text; x and y are its middle, in pixels from the upper left corner."""

  x: float
  y: float
  text: str
  kind: str = ""
  least_width: float = 0

  @property
  def lines(self) -> list[str]:
    """The text, line by line."""
    return self.text.split("\n")

  @property
  def width(self) -> float:
    """In pixels."""
    return max(self.least_width, 7.2 * max(map(len, self.lines)) + 22)

  @property
  def height(self) -> float:
    """In pixels."""
    return _LINE * len(self.lines) + 12

  def svg(self) -> str:
    """Returns the elements of the box."""
    kind = f' class="{self.kind}"' if self.kind else ""
    rows = [
      f'<rect{kind} x="{self.x - self.width / 2:.0f}" y="{self.y - self.height / 2:.0f}" '
      f'width="{self.width:.0f}" height="{self.height:.0f}"/>'
    ]
    first = self.y - _LINE * (len(self.lines) - 1) / 2 + 4.5
    rows += [text(self.x, first + number * _LINE, line) for number, line in enumerate(self.lines)]
    return "\n".join(rows)


def text(x: float, y: float, words: str, kind: str = "") -> str:
  """Returns a line of text; x is its middle, or its start where the kind is "title"."""
  style = f' class="{kind}"' if kind else ""
  return f'<text{style} x="{x:.0f}" y="{y:.0f}">{saxutils.escape(words)}</text>'


def frame(x: float, y: float, width: float, height: float) -> str:
  """Returns a dashed rectangle around what belongs together."""
  return f'<rect class="group" x="{x}" y="{y}" width="{width}" height="{height}"/>'


def arrow(start: Box, end: Box) -> str:
  """Returns an arrow from one box to another, by the sides that face each other."""
  if abs(end.y - start.y) >= (start.height + end.height) / 2:
    down = 1 if end.y > start.y else -1
    x0, y0 = start.x, start.y + down * start.height / 2
    x1, y1 = end.x, end.y - down * (end.height / 2 + 4)
    bend = (y1 - y0) / 2
    curve = f"C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"
  else:
    right = 1 if end.x > start.x else -1
    x0, y0 = start.x + right * start.width / 2, start.y
    x1, y1 = end.x - right * (end.width / 2 + 4), end.y
    bend = (x1 - x0) / 2
    curve = f"C{x0 + bend:.0f} {y0:.0f} {x1 - bend:.0f} {y1:.0f} {x1:.0f} {y1:.0f}"
  return f'<path marker-end="url(#tip)" d="M{x0:.0f} {y0:.0f} {curve}"/>'


def drawing(title: str, width: int, height: int, parts: list[str]) -> str:
  """Returns a whole file; later parts lie on top of earlier ones."""
  body = "\n".join(parts)
  return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>{saxutils.escape(title)}</title>
<style>{_STYLE}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7"
 orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill: #7b8794"/></marker></defs>
<rect width="{width}" height="{height}" style="fill: #ffffff; stroke: none; rx: 10"/>
{text(20, 28, title, "title")}
{body}
</svg>
"""
