"""Shows a comparison: a table for the terminal, and a picture of the times to train.

    found = summary.Summary(rows, prices.read())
    print(report.text(found))
    report.draw("out/compare/times.png", found)

The picture has a bar for each device, with the quartiles as a whisker.
"""

import io
import math

from trainer.cli import formatting
from trainer.compare import results, summary
from trainer.io import local_files
from trainer.plot import svg

_UNITS = {"step": "a step", "epoch": "an epoch", "run": "in all"}
_NUMBERS = ("step or call", "examples/s", "time", "over cpu", "cost", "input wait", "memory")
# A comparison runs its cases one after the other, with as many threads as there are cores. More
# processes than this many times the cores belong to other programs.
_BUSY = 2

_COLOR = "#0072b2"
_LABEL_LETTERS = 46
# Inches.
_WIDTH, _BAR_HEIGHT, _PANEL_HEIGHT = 8.5, 0.3, 0.75


def text(found: summary.Summary) -> str:
  """Returns the table of all cases, what failed, and the fastest and cheapest device of each."""
  lines = [_line(found, row) for rows in found.cases().values() for row in rows]
  if not lines:
    return "No measurement."
  titles = list(dict.fromkeys(title for line in lines for title in line if line[title]))
  cells = [[line.get(title, "") for title in titles] for line in lines]
  right = [place for place, title in enumerate(titles) if title in _NUMBERS]
  failed = [
    f"{summary.title(row)} on {found.label(row)}: {row.status}. {row.problem}"
    for row in found.rows
    if row.status != results.OK
  ]
  choices = [_choice(found, choice) for choice in found.choices()]
  return "\n".join([formatting.table(titles, cells, right), "", *failed, *choices])


def draw(path: str, found: summary.Summary) -> bool:
  """Draws the times to train, a panel for each case; returns whether there are any.

  Args:
    path: of the PNG.
    found: the summary.

  Raises:
    OutputError: it cannot write the file.
    SettingError: matplotlib is missing.
  """
  panels = {
    case: [row for row in rows if summary.seconds_of(row, rows[0].unit)]
    for case, rows in found.cases().items()
    if case[1] == "train"
  }
  if not panels:
    return False
  heights = [len(rows) for rows in panels.values()]
  height = sum(_PANEL_HEIGHT + _BAR_HEIGHT * count for count in heights) + 0.5
  with svg.figure_class() as figure_class:
    figure = figure_class(figsize=(_WIDTH, height), dpi=120, layout="constrained")
    figure.suptitle("Time of training, in seconds", fontweight="bold")
    # The height ratios are the axes' without their titles: so all bars are equally high.
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for each, (case, rows) in zip(axes, panels.items(), strict=True):
      each.set_title(f"{summary.case_title(case)}, {_UNITS[rows[0].unit]}", loc="left")
      _draw_bars(each, found, rows)
    png = io.BytesIO()
    figure.savefig(png, format="png")
  local_files.write(path, png.getvalue(), "--output")
  return True


def duration(seconds: float) -> str:
  """Returns a time for people, with three digits: "1.22 ms", "40 s", "5.5 min", "2.1 h"."""
  for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
    # Minutes begin at 120 s and hours at 120 min: "90 s", not "1.5 min".
    if seconds >= (2 * size if size > 1 else 1):
      return f"{formatting.three_digits(seconds / size)} {unit}"
  return f"{formatting.three_digits(1000 * seconds)} ms"


def _line(found, row):
  """Returns the line of a row, title → cell."""
  memory = row.device_memory_bytes or row.memory_bytes
  time, cost = summary.seconds_of(row, row.unit), found.cost(row, row.unit)
  price, speedup = found.price(row), found.speedup(row)
  whole = row.mode == "train" and row.unit != "step"  # the step has its own column
  busy = (row.load or 0) > _BUSY * row.machine.get("cpu_cores", math.inf)
  return {
    "case": summary.title(row),
    "device": found.label(row),
    "step or call": duration(row.seconds),
    "quartiles": f"{duration(row.low)}–{duration(row.high)}",
    "examples/s": formatting.three_digits(row.examples_per_second),
    "time": f"{duration(time)} {_UNITS[row.unit]}" if whole and time else "",
    "over cpu": f"{speedup:.3g} ×" if speedup else "",
    "cost": f"{cost:.3g} {price.currency} {_UNITS[row.unit]}" if whole and cost else "",
    "input wait": f"{row.input_wait:.0%}" if row.input_wait is not None else "",
    "memory": formatting.memory_size(memory) if memory else "",
    "accuracy": f"{row.accuracy:.1%}" if row.accuracy is not None else "",
    "": "other programs ran: too slow" if busy else "",
  }


def _choice(found, choice):
  title = summary.case_title(choice.case)
  if choice.fastest is None:
    return f"{title}: no device was measured, rehearsals apart."
  cheapest = [
    f"; cheapest in {currency}: {found.label(row)}" for currency, row in choice.cheapest.items()
  ]
  return f"{title}: fastest: {found.label(choice.fastest)}{''.join(cheapest)}"


def _draw_bars(axes, found, rows):
  # The quartiles are a step's. An epoch or a run multiplies them as it multiplies the median.
  unit = rows[0].unit
  times = [summary.seconds_of(row, unit) for row in rows]
  for place, (row, time) in enumerate(zip(rows, times, strict=True)):
    ends = [time * row.low / row.seconds, time * row.high / row.seconds]
    whisker = [[time - ends[0]], [ends[1] - time]]
    axes.barh(place, time, height=0.7, color=_COLOR, xerr=whisker, capsize=2)
    axes.annotate(duration(time), (ends[1], place), (5, 0), textcoords="offset points", va="center")
  labels = [formatting.shorten(found.label(row), _LABEL_LETTERS) for row in rows]
  axes.set_yticks(range(len(rows)), labels, fontsize=8)
  axes.set_ylim(len(rows) - 0.5, -0.5)  # from top to bottom
  # Bars begin at 0, so that their lengths are comparable; the room at the right is for the values.
  axes.set_xlim(0, 1.4 * max(times))
  axes.spines[["top", "right"]].set_visible(False)
