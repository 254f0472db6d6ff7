"""Draws the content of an evaluation report: confusion matrix, reliability diagram, residuals.

    evaluation_charts.svgs(report)

For the report see `trainer.reporting.evaluation_reports`.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from trainer.cli import formatting
from trainer.plot import svg

_BLUE, _ORANGE = "#0072b2", "#d55e00"  # Of Okabe and Ito, like the curves.
_LETTERS = 14  # Of a class's name.


def svgs(report: Mapping[str, Any]) -> list[str]:
  """Returns the <svg> elements of a report; text and axes take the text colour of the page.

  Raises:
    SettingError: matplotlib is missing.
  """
  with svg.figure_class(svg.TEXT_COLOR) as figure_class:
    return [
      svg.element(_figure(figure_class, draw, size, report), title)
      for title, (draw, size) in _charts(report).items()
    ]


def _charts(report: Mapping[str, Any]) -> dict[str, tuple[Callable, float]]:
  """Returns title → (function that draws into axes, inches of each side)."""
  charts: dict[str, tuple[Callable, float]] = {}
  if report.get("confusions"):
    charts["confusion matrix"] = _draw_matrix, 2.4 + 0.24 * len(report["confusions"]["names"])
  if report.get("calibration"):
    charts["reliability"] = _draw_reliability, 4.0
  if report.get("residuals"):
    charts["errors"] = _draw_histogram, 4.0
    charts["errors by prediction"] = _draw_parts, 4.0
  return charts


def _figure(figure_class, draw, size, report):
  figure = figure_class(figsize=(size, size), layout="constrained")
  axes = figure.add_subplot()
  draw(axes, report)
  axes.spines[["top", "right"]].set_visible(False)
  return figure


def _draw_matrix(axes, report):
  """Draws shares of each label's examples as shades, and the counts as numbers."""
  from matplotlib import colors

  confusions = report["confusions"]
  counts = confusions["counts"]
  names = [formatting.shorten(name, _LETTERS) for name in confusions["names"]]
  columns = names + ["others"] * confusions["has_others"]
  for row, of_label in enumerate(counts):
    whole = sum(of_label) or 1
    for column, count in enumerate(of_label):
      if not count:
        continue
      share = count / whole
      right = row == column
      # A faint shade is visible on a white page and on a dark one; the number has the text's
      # colour.
      shade = colors.to_rgba(_BLUE if right else _ORANGE, 0.15 + 0.6 * share)
      axes.add_patch(_square(column, row, shade))
      axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=7)
  axes.set_xlim(-0.5, len(columns) - 0.5)
  axes.set_ylim(len(names) - 0.5, -0.5)
  axes.set_aspect("equal")
  axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=8)
  axes.set_yticks(range(len(names)), names, fontsize=8)
  axes.set_xlabel("predicted")
  axes.set_ylabel("label")


def _square(column, row, color):
  from matplotlib import patches

  return patches.Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=color, edgecolor="none")


def _draw_reliability(axes, report):
  """Draws how often the model is right for each probability that it gives."""
  bins = report["calibration"]["bins"]
  most = max(each["examples"] for each in bins)
  axes.plot([0, 1], [0, 1], color=svg.TEXT_COLOR, linewidth=1, linestyle=":", alpha=0.6)
  axes.bar(
    [each["low"] for each in bins],
    [each["accuracy"] for each in bins],
    [each["high"] - each["low"] for each in bins],
    align="edge",
    # The strength of a bar's colour shows the bin's share of the examples.
    color=[(0, 0.447, 0.698, 0.25 + 0.75 * each["examples"] / most) for each in bins],
  )
  axes.plot(
    [each["confidence"] for each in bins],
    [each["accuracy"] for each in bins],
    color=_ORANGE,
    marker="o",
    markersize=4,
    linewidth=1,
  )
  axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
  axes.set_xlabel("probability of the predicted class")
  axes.set_ylabel("share of right predictions")
  axes.grid(visible=True, alpha=0.2)


def _draw_histogram(axes, report):
  residuals = report["residuals"]
  edges = residuals["edges"]
  widths = [high - low for low, high in itertools.pairwise(edges)]
  axes.bar(edges[:-1], residuals["counts"], widths, align="edge", color=_BLUE)
  axes.axvline(0, color=_ORANGE, linewidth=1)
  axes.set_xlabel("prediction less label")
  axes.set_ylabel("examples")
  axes.grid(visible=True, axis="y", alpha=0.2)


def _draw_parts(axes, report):
  parts = report["residuals"]["parts"]
  places = [each["predicted"] for each in parts]
  axes.vlines(places, [each["low"] for each in parts], [each["high"] for each in parts], _BLUE)
  axes.plot(places, [each["median"] for each in parts], color=_BLUE, marker="o", linewidth=1)
  axes.axhline(0, color=_ORANGE, linewidth=1)
  axes.set_xlabel("prediction, a tenth of the set at each point")
  axes.set_ylabel("prediction less label, 5 to 95 %")
  axes.grid(visible=True, alpha=0.2)
