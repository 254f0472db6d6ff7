"""Boxes with text and arrows between them, as SVG."""

import dataclasses
from collections.abc import Sequence
from xml.sax import saxutils

_LINE = 18  # pixels from a line of text to the next

# On GitHub a drawing is a picture that follows the reader's system. On the site it is a part of a
# page with a switch. There, its rules apply to the whole page, so all of them select `.drawing`.
_LIGHT = (
  "--ink: #1f2933; --soft: #52606d; --paper: #ffffff; --box: #e8f0fe; --edge: #5b7bb4; "
  "--other: #fdf3e1; --other-edge: #c69749; --line: #7b8794"
)
_DARK = (
  "--ink: #e4e7eb; --soft: #a3adb8; --paper: #1f2129; --box: #26344f; --edge: #7fa0d8; "
  "--other: #453720; --other-edge: #c69749; --line: #94a0ad"
)
_STYLE = f"""
  .drawing {{ {_LIGHT} }}
  @media (prefers-color-scheme: dark) {{ .drawing {{ {_DARK} }} }}
  [data-md-color-scheme="default"] .drawing {{ {_LIGHT} }}
  [data-md-color-scheme="slate"] .drawing {{ {_DARK} }}
  .drawing text {{ font: 13px system-ui, sans-serif; fill: var(--ink); text-anchor: middle }}
  .drawing .title {{ font-weight: 600; font-size: 15px; text-anchor: start }}
  .drawing .note {{ fill: var(--soft); font-size: 12px }}
  .drawing .start {{ text-anchor: start }}
  .drawing rect {{ fill: var(--box); stroke: var(--edge); rx: 6 }}
  .drawing .other {{ fill: var(--other); stroke: var(--other-edge) }}
  .drawing .group {{ fill: none; stroke: var(--line); stroke-dasharray: 5 4 }}
  .drawing .paper {{ fill: var(--paper); stroke: none; rx: 10 }}
  .drawing path {{ fill: none; stroke: var(--line); stroke-width: 1.2 }}
  .drawing marker path {{ fill: var(--line); stroke: none }}
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
    """The width in pixels."""
    return max(self.least_width, 7.2 * max(map(len, self.lines)) + 22)

  @property
  def height(self) -> float:
    """The height in pixels."""
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
  """Returns a dashed rectangle around a group."""
  return f'<rect class="group" x="{x}" y="{y}" width="{width}" height="{height}"/>'


def arrow(start: Box, end: Box) -> str:
  """Returns an arrow between two boxes, between the sides that face each other."""
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


def way(start: Box, points: Sequence[tuple[float, float]]) -> str:
  """Returns a downward arrow through points, from a box's middle to another's."""
  (x, y), *rest = points
  y += start.height / 2
  drawn = f"M{x:.0f} {y:.0f}"
  for number, (to_x, to_y) in enumerate(rest, 1):
    to_y -= start.height / 2 + 4 if number == len(rest) else 0
    middle = (y + to_y) / 2
    drawn += f" C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"
    x, y = to_x, to_y
  return f'<path marker-end="url(#tip)" d="{drawn}"/>'


def drawing(title: str, width: int, height: int, parts: list[str]) -> str:
  """Returns a whole file; later parts lie on top of earlier ones."""
  body = "\n".join(parts)
  return f"""<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {width} {height}"
 role="img">
<title>{saxutils.escape(title)}</title>
<style>{_STYLE}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7"
 orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>
<rect class="paper" width="{width}" height="{height}"/>
{text(20, 28, title, "title")}
{body}
</svg>
"""
