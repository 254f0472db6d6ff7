"""Draws learning curves from metrics.jsonl with matplotlib, without TensorFlow.

    found = curves.collect(["out/lr1", "out/lr2"])       # {"loss": [Curve, ...], "accuracy": ...}
    curves.save("curves.png", found)

Each metric has one panel with all runs, training and evaluations. For one run, training and
evaluations have different colours. For several runs, each run has a colour, and training and
evaluations have different line styles. Colour-blind people can tell the colours apart.
"""

import dataclasses
import itertools
import math
import os
from collections.abc import Mapping, Sequence

from trainer import errors
from trainer.plot import svg
from trainer.reporting import metrics_file

# Okabe and Ito, "Color Universal Design" (2008), without yellow and black: they are invisible on a
# white or a dark page. Neighbours in this order also differ in lightness.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

# Dash pattern and marker of training, of the first evaluation, and of further ones.
_STYLES = (("-", ""), ("--", "o"), (":", "s"), ("-.", "^"), ((0, (3, 1, 1, 1, 1, 1)), "D"))

_LABELS = {
  "examples_per_second": "examples / s",
  "steps_per_second": "steps / s",
  "input_wait": "input wait (share of time)",
  "learning_rate": "learning rate",
}
# Axes that begin at 0. Otherwise a constant rate would get an axis that only shows rounding errors.
_FROM_ZERO = ("learning_rate", "examples_per_second", "steps_per_second", "input_wait")

_LEGEND_ROW = 0.2  # Inches.

# Metrics that say less about learning come last. steps/s is examples/s in another unit, so the plot
# has it only on request.
_LAST = ("examples_per_second", "input_wait")
_NOT_BY_DEFAULT = ("steps_per_second",)


@dataclasses.dataclass
class Curve:
  """The values of one metric in one run's training or one of its evaluations.

  Attributes:
    run: name of the run.
    kind: "train", "eval" or "eval_<name>".
    steps: in rising order.
    values: one for each step; NaN for NaN and infinity.
  """

  run: str
  kind: str
  steps: list[int] = dataclasses.field(default_factory=list)
  values: list[float] = dataclasses.field(default_factory=list)


def collect(model_dirs: Sequence[str], metrics: Sequence[str] = ()) -> dict[str, list[Curve]]:
  """Reads the curves of runs.

  Args:
    model_dirs: the folders of the runs.
    metrics: names of the metrics to take, in this order; () for all but steps_per_second.

  Returns:
    Metric → curves, by run in the order given, training before evaluations.

  Raises:
    SettingError: a folder has no metrics, or no run has one of `metrics`.
  """
  found: dict[str, dict[tuple[str, str], Curve]] = {}
  for model_dir, run in zip(model_dirs, run_names(model_dirs), strict=True):
    lines = metrics_file.read(model_dir)
    if not lines:
      raise errors.SettingError(
        f"There are no metrics in {model_dir}: no {metrics_file.NAME} with a report in it. Is it "
        "the --model_dir of a run, and has the run written its first report "
        "(RunConfig.save_summary_steps)?"
      )
    for line in sorted(lines, key=lambda line: (line["kind"] != metrics_file.TRAIN, line["kind"])):
      for metric, value in line.items():
        if metric not in ("step", "time", "kind"):
          curve = found.setdefault(metric, {}).setdefault(
            (run, line["kind"]), Curve(run, line["kind"])
          )
          curve.steps.append(line["step"])
          curve.values.append(math.nan if value is None else value)
  unknown = [metric for metric in metrics if metric not in found]
  if unknown:
    raise errors.SettingError(f"--metric={unknown[0]}: the runs have {', '.join(sorted(found))}.")
  names = metrics or sorted(
    set(found) - set(_NOT_BY_DEFAULT), key=lambda name: _rank(name, found[name])
  )
  return {name: list(found[name].values()) for name in names}


def run_names(model_dirs: Sequence[str]) -> list[str]:
  """Returns the shortest names that tell folders apart: lr1 and lr2 for a/lr1/run and a/lr2/run.

  Raises:
    SettingError: the same folder occurs twice.
  """
  parts = [
    os.path.abspath(path).split(os.sep) if "://" not in path else path.rstrip("/").split("/")
    for path in map(os.fspath, model_dirs)
  ]
  if len({tuple(path) for path in parts}) < len(parts):
    raise errors.SettingError(f"The same folder twice: {', '.join(map(str, model_dirs))}.")
  length = 1
  while len({tuple(path[-length:]) for path in parts}) < len(parts):
    length += 1
  tails = [path[-length:] for path in parts]
  while len(tails) > 1 and min(map(len, tails)) > 1 and len({tail[-1] for tail in tails}) == 1:
    tails = [tail[:-1] for tail in tails]
  return ["/".join(tail) for tail in tails]


def save(path: str, found: Mapping[str, Sequence[Curve]]) -> None:
  """Writes a picture of all panels.

  Args:
    path: ends in .png or .svg.
    found: from `collect`.

  Raises:
    SettingError: the path has another ending, or matplotlib is missing.
    OutputError: it cannot write the file.
  """
  if not path.endswith((".png", ".svg")):
    raise errors.SettingError(f"--output={path}: expected a file that ends in .png or .svg.")
  with svg.figure_class() as figure_class:
    columns = min(3, max(1, math.ceil(math.sqrt(len(found)))))
    rows = math.ceil(len(found) / columns)
    figure = figure_class(figsize=(4.6 * columns, 3.1 * rows + 0.5), dpi=120, layout="constrained")
    styles = _Styles(found)
    for index, (metric, drawn) in enumerate(found.items(), 1):
      axes = figure.add_subplot(rows, columns, index)
      _draw(axes, metric, drawn, styles)
      axes.set_xlim(*_steps_shown(found))
    _legend(figure, styles, letters=4.6 * columns * 12)
    try:
      figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    except OSError as error:
      raise errors.OutputError(f"Cannot write {path} (--output): {error}") from error


def svgs(found: Mapping[str, Sequence[Curve]]) -> dict[str, str]:
  """Draws each panel for an HTML page; text and axes take the text colour of the page.

  Args:
    found: from `collect`.

  Returns:
    Metric → <svg> element.

  Raises:
    SettingError: matplotlib is missing.
  """
  with svg.figure_class(svg.TEXT_COLOR) as figure_class:
    styles = _Styles(found)
    panels: dict[str, str] = {}
    for metric, drawn in found.items():
      figure = figure_class(figsize=(4.6, 3.1), layout="constrained")
      axes = figure.add_subplot()
      _draw(axes, metric, drawn, styles)
      axes.set_xlim(*_steps_shown(found))
      if len(drawn) > 1:
        rows = _legend(figure, styles, letters=4.6 * 14, fontsize="small")
        figure.set_figheight(3.1 + _LEGEND_ROW * rows)
      panels[metric] = svg.element(figure, f"{label(metric)} by step")
    return panels


def _rank(name, drawn):
  return (
    name in _LAST,
    name != "loss",
    all(curve.kind == metrics_file.TRAIN for curve in drawn.values()),
    name,
  )


def label(metric: str) -> str:
  """Returns the label of a metric's axis."""
  return _LABELS.get(metric, metric)


def _steps_shown(found):
  """Returns the first and the last step of the axes, for all panels."""
  steps = [step for drawn in found.values() for curve in drawn for step in curve.steps]
  margin = 0.03 * (max(steps) - min(steps)) or 1
  return min(steps) - margin, max(steps) + margin


class _Styles:
  """Chooses the colour, dashes and marker of each curve, the same in all panels."""

  def __init__(self, found):
    drawn = [curve for curves in found.values() for curve in curves]
    self._runs = list(dict.fromkeys(curve.run for curve in drawn))
    kinds = {curve.kind for curve in drawn}
    self._kinds = sorted(kinds, key=lambda kind: (kind != metrics_file.TRAIN, kind))
    styles = itertools.cycle(_STYLES[metrics_file.TRAIN not in kinds :])
    self._styles = dict(zip(self._kinds, styles, strict=False))

  def of(self, run, kind):
    """Returns (colour, dashes, marker) of a run's kind."""
    if len(self._runs) == 1:
      return self._colors(len(self._kinds))[self._kinds.index(kind)], *self._styles[kind]
    return self._colors(len(self._runs))[self._runs.index(run)], *self._styles[kind]

  def entries(self):
    """Returns the (label, style) pairs of a legend."""
    if len(self._runs) == 1:
      return [(kind, self.of(self._runs[0], kind)) for kind in self._kinds]
    by_run = [
      (run, (color, "-", ""))
      for run, color in zip(self._runs, self._colors(len(self._runs)), strict=True)
    ]
    return by_run + [(kind, (svg.TEXT_COLOR, *style)) for kind, style in self._styles.items()]

  @staticmethod
  def _colors(count):
    """Returns colours of the palette, or of a scale from dark to light if those are too few."""
    if count <= len(_COLORS):
      return _COLORS[:count]
    import matplotlib

    return [
      matplotlib.colors.to_hex(matplotlib.colormaps["viridis"](0.95 * index / (count - 1)))
      for index in range(count)
    ]


def _draw(axes, metric, drawn, styles):
  from matplotlib import ticker

  for curve in drawn:
    color, dashes, marker = styles.of(curve.run, curve.kind)
    few = len(curve.steps) == 1
    axes.plot(
      curve.steps,
      curve.values,
      color=color,
      linestyle=dashes,
      marker=marker or ("o" if few else ""),
      markersize=4,
      linewidth=1.5,
    )
  axes.set_xlabel("step")
  axes.set_ylabel(label(metric))
  axes.xaxis.set_major_locator(ticker.MaxNLocator(5, steps=(1, 2, 5, 10), integer=True))
  axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
  if metric in _FROM_ZERO:
    axes.set_ylim(bottom=0)
  axes.yaxis.set_major_formatter(_number_formatter(axes))
  axes.grid(visible=True, alpha=0.2)
  axes.spines[["top", "right"]].set_visible(False)


def _number_formatter(axes):
  """Returns a formatter that writes numbers in full.

  matplotlib's own takes a common offset or power of ten out, and readers must add it back.
  """
  low, high = axes.get_ylim()
  largest = max(abs(low), abs(high))
  # Digits before the point, unless there are very many; and enough to tell two ticks apart.
  whole = math.log10(largest) if largest < 1e15 else 0
  # Axes of the largest floats end at infinity.
  apart = 1 + math.log10(largest) - math.log10(high - low) if math.isfinite(high - low) else 0
  digits = math.ceil(max(5, whole, apart)) + 1
  return lambda value, _: f"{value:,.{digits}g}"


def _legend(figure, styles, letters, **more):
  """Draws the legend above all panels, where it covers no curve; returns how many rows it has.

  Args:
    figure: gets it.
    styles: the _Styles.
    letters: the number that fits beside each other on the figure.
    **more: for matplotlib.
  """
  entries = styles.entries()
  widest = max(len(name) for name, _ in entries)
  columns = max(1, min(len(entries), int(letters / (widest + 7))))
  figure.legend(
    handles=[_line(name, style) for name, style in entries],
    loc="outside upper left",
    ncols=columns,
    frameon=False,
    **more,
  )
  return math.ceil(len(entries) / columns)


def _line(name, style):
  from matplotlib import lines

  color, dashes, marker = style
  return lines.Line2D(
    [], [], color=color, linestyle=dashes, marker=marker, markersize=4, linewidth=1.5, label=name
  )
