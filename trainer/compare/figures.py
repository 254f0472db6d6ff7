"""Bar charts of a comparison, as PNGs: measured, published and estimated bars look different.

    for name, picture in figures.charts(found).items():
      pathlib.Path(f"{name}.png").write_bytes(picture)

Measured bars have a fill. Published bars have a hatch. Estimates are an outline from the lower to
the upper end of their range. The colour shows the kind of device. Each bar has its value beside it.
"""

import dataclasses
import io
import math
import textwrap
from collections.abc import Mapping, Sequence

from trainer.cli import formatting
from trainer.compare import results, summary
from trainer.devices import device_names
from trainer.plot import svg

PUBLISHED = "published"

_DEVICES = {
  "cpu": "CPU",
  "cpu:N": "virtual cores (rehearsal)",
  "xla:N": "XLA devices (rehearsal)",
  "gpu": "GPU",
  "xla:gpu": "GPU, by PJRT",
  "tpu": "TPU",
}
# Okabe and Ito, "Color Universal Design" (2008).
_COLORS = {
  "cpu": "#0072b2",
  "cpu:N": "#56b4e9",
  "xla:N": "#cc79a7",
  "gpu": "#d55e00",
  "xla:gpu": "#e69f00",
  "tpu": "#009e73",
}
_UNIT_TITLES = {"step": "a step", "epoch": "an epoch", "run": "the whole training"}

# Inches.
_WIDTH, _BAR_HEIGHT, _PANEL_HEIGHT = 8.5, 0.3, 0.75
# A line of a label has at most so many characters; a bar has room for two lines.
_LABEL_WIDTH = 46


@dataclasses.dataclass(frozen=True)
class Bar:
  """A bar of a chart.

  Attributes:
    label: the device or its step, for people.
    device: "cpu", "cpu:N", "xla:N", "gpu", "xla:gpu" or "tpu".
    kind: "measured", "estimated" or "published".
    low: where the bar ends; for an estimate where it begins.
    high: where the bar ends.
    spread: the ends of the whisker, or None.
    text: the value, for people.
  """

  label: str
  device: str
  kind: str
  low: float
  high: float
  spread: tuple[float, float] | None
  text: str


Panels = Mapping[str, Sequence[Bar]]


@dataclasses.dataclass(frozen=True)
class Chart:
  """A chart, as a picture of its own and for a page.

  Attributes:
    png: the picture.
    svg: an <svg> element; its text and axes take the text colour of the page.
  """

  png: bytes
  svg: str


def charts(found: summary.Summary) -> dict[str, Chart]:
  """Returns the names and the Charts with bars.

  Raises:
    SettingError: matplotlib is missing.
  """
  panels = {
    "times": ("Time of training, in seconds", times(found)),
    "speedup": ("Speed-up over the CPU (published: over their own baseline)", speedups(found)),
    "batch_sizes": ("Speed by batch size, in examples per second", batch_sizes(found)),
    "predictions": ("Predicting few and many, in examples per second", predictions(found)),
    "costs": ("Cost, by the price table", costs(found)),
  }
  return {name: draw(title, drawn) for name, (title, drawn) in panels.items() if drawn}


def times(found: summary.Summary) -> dict[str, list[Bar]]:
  """Returns the panels of the times to train, one for each case."""
  panels: dict[str, list[Bar]] = {}
  for case, rows in found.cases().items():
    if case[1] != "train":
      continue
    unit = rows[0].unit
    bars = [bar for row in rows if (bar := _time_bar(found, row, unit))]
    bars += [
      _published_bar(figure, duration(figure.value))
      for figure in found.published
      if (figure.workload, figure.mode, figure.quantity) == (case[0], "train", unit)
      and figure.batch_size in (None, case[2])
    ]
    panels[f"{summary.case_title(case)}: {_UNIT_TITLES[unit]}"] = bars
  return panels


def speedups(found: summary.Summary) -> dict[str, list[Bar]]:
  """Returns the panels of the speed-ups, one for each case with a speed-up."""
  panels: dict[str, list[Bar]] = {}
  for each in found.speedups():
    bar = _bar(found, each.row, (each.low, each.high), ratio(each.low, each.high))
    panels.setdefault(summary.title(each.row), []).append(bar)
  for case in found.cases():
    figures = [
      _published_bar(figure, f"{_number(figure.value)} × the {figure.over}")
      for figure in found.published
      if (figure.workload, figure.mode, figure.quantity) == (case[0], case[1], "speed-up")
      and figure.batch_size in (None, case[2])
    ]
    if figures:
      panels.setdefault(summary.case_title(case), []).extend(figures)
  return panels


def batch_sizes(found: summary.Summary) -> dict[str, list[Bar]]:
  """Returns the panels of examples/s, of workloads with trainings at several batch sizes."""
  sizes: dict[str, set[int]] = {}
  for row in found.good():
    if row.mode == "train":
      sizes.setdefault(row.workload, set()).add(row.batch_size)
  several = [workload for workload, each in sizes.items() if len(each) > 1]
  return {
    workload: [
      _rate_bar(row, f"batch {row.batch_size:,}, {found.label(row)}")
      for row in sorted(found.good(), key=lambda row: (found.label(row), row.batch_size))
      if (row.workload, row.mode) == (workload, "train")
    ]
    for workload in several
  }


def predictions(found: summary.Summary) -> dict[str, list[Bar]]:
  """Returns the panels of examples/s of predictions, one for each workload."""
  panels: dict[str, list[Bar]] = {}
  for row in found.good():
    if row.mode == "predict" and row.examples is not None:
      label = f"{row.examples:,} examples, {found.label(row)}"
      panels.setdefault(row.workload, []).append(_rate_bar(row, label))
  return panels


def costs(found: summary.Summary) -> dict[str, list[Bar]]:
  """Returns the panels of the costs of a run or an epoch, one for each case with a price.

  A step alone costs next to nothing, and has no panel.
  """
  panels: dict[str, list[Bar]] = {}
  for case, rows in found.cases().items():
    for row in rows:
      price, cost = found.price(row), found.cost(row, row.unit)
      if case[1] == "train" and row.unit != "step" and price and cost:
        title = f"{summary.case_title(case)}: {_UNIT_TITLES[row.unit]}, in {price.currency}"
        text = "–".join(dict.fromkeys(f"{each:.3g}" for each in cost))
        panels.setdefault(title, []).append(_bar(found, row, cost, text))
  return panels


def draw(title: str, panels: Panels) -> Chart:
  """Draws panels one below the other."""
  with svg.figure_class() as figure_class:
    written = io.BytesIO()
    _figure(figure_class, title, panels, "black").savefig(written, format="png")
  with svg.figure_class(svg.TEXT_COLOR) as figure_class:
    # The page has the title beside the picture.
    element = svg.element(_figure(figure_class, title, panels, svg.TEXT_COLOR), title)
  return Chart(written.getvalue(), element)


def _figure(figure_class, title, panels, text_color):
  bars = [len(each) for each in panels.values()]
  height = sum(_PANEL_HEIGHT + _BAR_HEIGHT * count for count in bars) + 1.1
  figure = figure_class(figsize=(_WIDTH, height), dpi=120, layout="constrained")
  figure.suptitle(title, fontweight="bold")
  # The height ratios are the axes' without their titles: so all bars are equally high.
  axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=bars)
  for each, (name, drawn) in zip(axes[:, 0], panels.items(), strict=True):
    _draw_panel(each, name, drawn, text_color)
  entries = _legend([bar for each in panels.values() for bar in each])
  if entries:
    figure.legend(handles=entries, loc="outside lower center", ncols=4, frameon=False)
  return figure


def _draw_panel(axes, name, bars, text_color):
  axes.set_title(name, loc="left", fontsize="medium")
  bars = in_order(bars)
  for place, bar in enumerate(bars):
    estimated = bar.kind == results.ESTIMATED
    left = bar.low if estimated else 0
    axes.barh(place, bar.high - left, left=left, height=0.7, **_style(bar))
    if bar.spread:
      errors = [[bar.high - bar.spread[0]], [bar.spread[1] - bar.high]]
      axes.errorbar(bar.high, place, xerr=errors, color=text_color, capsize=2, linewidth=1)
    end = max(bar.high, bar.spread[1] if bar.spread else 0)
    mark = "" if bar.kind == results.MEASURED else f"  {bar.kind}"
    axes.annotate(
      bar.text + mark, (end, place), (5, 0), textcoords="offset points", va="center", fontsize=9
    )
  axes.set_yticks(range(len(bars)), [_wrapped(bar.label) for bar in bars], fontsize=8)
  axes.set_ylim(len(bars) - 0.5, -0.5)  # from top to bottom
  # Bars begin at 0, so that their lengths are comparable; the room at the right is for the values.
  axes.set_xlim(0, 1.4 * max(max(bar.high, *(bar.spread or (0, 0))) for bar in bars))
  axes.xaxis.set_major_formatter("{x:,.6g}")
  axes.set_axisbelow(True)
  axes.grid(visible=True, axis="x", alpha=0.2)
  axes.spines[["top", "right"]].set_visible(False)


def in_order(bars: Sequence[Bar]) -> list[Bar]:
  """Returns bars by kind of device; within a kind, measurements come first."""
  kinds, places = [results.MEASURED, PUBLISHED, results.ESTIMATED], list(_DEVICES)
  return sorted(bars, key=lambda bar: (places.index(bar.device), kinds.index(bar.kind)))


def _style(bar):
  color = _COLORS[bar.device]
  if bar.kind == results.MEASURED:
    return {"color": color}
  if bar.kind == results.ESTIMATED:
    return {"facecolor": "none", "edgecolor": color, "linestyle": "--", "linewidth": 1.5}
  return {"facecolor": "none", "edgecolor": color, "hatch": "////", "linewidth": 1}


def _legend(bars):
  """Returns the entries of a legend: only those that distinguish bars of this chart."""
  from matplotlib import patches

  devices = [device for device in _DEVICES if any(bar.device == device for bar in bars)]
  entries = [patches.Patch(color=_COLORS[device], label=_DEVICES[device]) for device in devices]
  if len(devices) == 1:
    entries = []
  kinds = (results.MEASURED, PUBLISHED, results.ESTIMATED)
  found = [bar for kind in kinds for bar in bars if bar.kind == kind]
  for bar in (
    {bar.kind: bar for bar in found}.values() if len({bar.kind for bar in found}) > 1 else ()
  ):
    style = _style(dataclasses.replace(bar, device="cpu"))
    style = {"color": "gray"} if bar.kind == results.MEASURED else {**style, "edgecolor": "gray"}
    entries.append(patches.Patch(label=bar.kind, **style))
  return entries


def _time_bar(found, row, unit):
  ends = summary.seconds_of(row, unit)
  if ends is None:
    return None
  spread = None
  if row.kind == results.MEASURED and row.low is not None and row.high is not None:
    # The quartiles are a step's. An epoch or a run multiplies them as it multiplies the median.
    spread = (ends[0] * row.low / row.seconds, ends[0] * row.high / row.seconds)
  return _bar(found, row, ends, durations(*ends), spread)


def _bar(found, row, ends, text, spread=None):
  return Bar(found.label(row), device_kind(row.device), row.kind, *ends, spread, text)


def _rate_bar(row, label):
  rate = row.examples_per_second
  spread = (row.size / row.high, row.size / row.low)
  text = f"{formatting.three_digits(rate)} /s"
  return Bar(label, device_kind(row.device), row.kind, rate, rate, spread, text)


def _published_bar(figure, text):
  about = "about " * figure.approximate
  label = f"{figure.device} ({figure.hardware})"
  return Bar(label, figure.device, PUBLISHED, figure.value, figure.value, None, about + text)


def device_kind(device: str) -> str:
  """Returns the kind of a device, whatever the number of them.

  It is "cpu", "cpu:N" for virtual cores, "xla:N" for a CPU's XLA devices, "gpu", "xla:gpu" for
  GPUs that PJRT drives, or "tpu".
  """
  kind, count = device_names.split(device)
  return f"{kind}:N" if kind in ("cpu", "xla") and count else kind


def duration(seconds: float) -> str:
  """Returns a time for people, with three digits: "1.22 ms", "40 s", "5.5 min", "2.1 h"."""
  for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
    # Minutes begin at 120 s and hours at 120 min: "90 s", not "1.5 min".
    if seconds >= (2 * size if size > 1 else 1):
      return f"{formatting.three_digits(seconds / size)} {unit}"
  return f"{formatting.three_digits(1000 * seconds)} ms"


def durations(low: float, high: float) -> str:
  """Returns a range of times for people: "20–50 ms", "0.9 ms–1.1 s"; one time if both are equal."""
  first, last = duration(low), duration(high)
  if first == last:
    return first
  (number, unit), (_, last_unit) = first.split(" "), last.split(" ")
  return f"{number if unit == last_unit else first}–{last}"


def ratio(low: float, high: float) -> str:
  """Returns a speed-up for people: "3.5 ×", "80–120 ×"."""
  return "–".join(dict.fromkeys((_number(low), _number(high)))) + " ×"


def _number(value):
  return f"{value:,.0f}" if value >= 100 or not math.isfinite(value) else f"{value:.2g}"


def _wrapped(label):
  return "\n".join(textwrap.wrap(label, _LABEL_WIDTH, max_lines=2, placeholder=" …"))
