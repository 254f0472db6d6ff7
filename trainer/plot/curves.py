"""Learning curves from metrics.jsonl, drawn by matplotlib; no TensorFlow.

    found = curves.collect(["out/lr1", "out/lr2"])       # {"loss": [Curve, ...], "accuracy": ...}
    curves.save("curves.png", found)

A metric has one panel, with all runs, training and evaluations. Of one run, colours tell these
apart; of several, colours tell the runs apart and line styles training and evaluations. The colours
can be told apart by the colour-blind.
"""

import contextlib
import dataclasses
import html
import io
import logging
import math
import os
import re

from trainer import errors
from trainer.reporting import metrics_file

# Okabe and Ito, "Color Universal Design" (2008), without its yellow and black, which are lost on
# white and on a dark page. In an order such that neighbours differ in lightness too.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

# Train; the first evaluation; other ones. Each is dash pattern and marker.
_STYLES = (("-", ""), ("--", "o"), (":", "s"), ("-.", "^"), ((0, (3, 1, 1, 1, 1, 1)), "D"))

_LABELS = {
  "examples_per_second": "examples / s",
  "steps_per_second": "steps / s",
  "input_wait": "input wait (share of time)",
  "learning_rate": "learning rate",
}
# A rate that is constant is not to fill its panel with digits.
_FROM_ZERO = ("learning_rate", "examples_per_second", "steps_per_second", "input_wait")

# What says less about learning comes last; steps/s is examples/s in another unit, and drawn when it
# is asked for.
_LAST = ("examples_per_second", "input_wait")
_NOT_BY_DEFAULT = ("steps_per_second",)

# Stands for the colour of the text around an SVG, which is known where that is shown, on a light or
# on a dark page.
_TEXT_COLOR = "#010203"


@dataclasses.dataclass
class Curve:
  """One metric of one kind in one run.

  Attributes:
    run: the name of the run.
    kind: "train", "eval" or "eval_<name>".
    steps: list of ints, rising.
    values: list of floats, NaN for what is no number.
  """

  run: str
  kind: str
  steps: list[int] = dataclasses.field(default_factory=list)
  values: list[float] = dataclasses.field(default_factory=list)


def collect(model_dirs, metrics=()):
  """The curves of runs.

  Args:
    model_dirs: list of the folders of runs.
    metrics: names of those to take, in this order; none: all but steps_per_second.

  Returns:
    dict of metric → list of Curve, by run in the order given, train before eval.

  Raises:
    SettingError: a folder has no metrics, or no run has a metric that was asked for.
  """
  found = {}
  for model_dir, run in zip(model_dirs, run_names(model_dirs), strict=True):
    lines = metrics_file.read(model_dir)
    if not lines:
      raise errors.SettingError(
        f"There are no metrics in {model_dir}: no {metrics_file.NAME} with a report in it. Is it "
        "the --model_dir of a run, and has the run come to "
        "its first report (RunConfig.save_summary_steps)?"
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


def run_names(model_dirs):
  """The shortest names that tell folders apart: of a/lr1/run and a/lr2/run, lr1 and lr2."""
  parts = [
    os.path.abspath(path).split(os.sep) if "://" not in path else path.rstrip("/").split("/")
    for path in map(os.fspath, model_dirs)
  ]
  if len({tuple(path) for path in parts}) < len(parts):
    raise errors.SettingError(f"A folder is given twice: {', '.join(map(str, model_dirs))}.")
  length = 1
  while len({tuple(path[-length:]) for path in parts}) < len(parts):
    length += 1
  tails = [path[-length:] for path in parts]
  while len(tails) > 1 and min(map(len, tails)) > 1 and len({tail[-1] for tail in tails}) == 1:
    tails = [tail[:-1] for tail in tails]
  return ["/".join(tail) for tail in tails]


def save(path, found, smoothing=0.0):
  """Writes a picture of all panels.

  Args:
    path: ends in .png or .svg.
    found: what collect returns.
    smoothing: see smooth.

  Raises:
    SettingError: another ending, a smoothing out of its range, or matplotlib is not there.
    OutputError: it cannot be written.
  """
  if not path.endswith((".png", ".svg")):
    raise errors.SettingError(f"--output={path}: expected a file that ends in .png or .svg.")
  with _matplotlib() as figure_class:
    columns = min(3, max(1, math.ceil(math.sqrt(len(found)))))
    rows = math.ceil(len(found) / columns)
    figure = figure_class(figsize=(4.6 * columns, 3.1 * rows + 0.5), dpi=120, layout="constrained")
    styles = _Styles(found)
    for index, (metric, drawn) in enumerate(found.items(), 1):
      axes = figure.add_subplot(rows, columns, index)
      _draw(axes, metric, drawn, styles, smoothing)
      axes.set_xlim(*_steps_shown(found))
    entries = styles.entries()
    widest = max(len(name) for name, _ in entries)
    figure.legend(
      handles=[_line(name, style) for name, style in entries],
      loc="outside upper left",
      ncols=max(1, min(len(entries), int(4.6 * columns * 12 / (widest + 7)))),
      frameon=False,
    )
    try:
      figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    except OSError as error:
      raise errors.OutputError(f"Cannot write {path} (--output): {error}") from error


def svgs(found, smoothing=0.0):
  """A dict of metric → its panel as an <svg> element, for an HTML page, in whose text colour
  the axes are.
  """
  with _matplotlib(_TEXT_COLOR, as_text=True) as figure_class:
    styles, panels = _Styles(found), {}
    for metric, drawn in found.items():
      figure = figure_class(figsize=(4.6, 3.1), layout="constrained")
      axes = figure.add_subplot()
      _draw(axes, metric, drawn, styles, smoothing)
      axes.set_xlim(*_steps_shown(found))
      if len(drawn) > 1:
        axes.legend(
          handles=[_line(name, style) for name, style in styles.entries()],
          frameon=False,
          fontsize="small",
        )
      written = io.StringIO()
      figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
      panels[metric] = _for_a_page(written.getvalue(), f"{label(metric)} by step")
    return panels


def smooth(values, weight):
  """The exponential moving average of a list of floats: of each value, `weight` in [0, 1) of
  the average of those before it. NaN is passed over.
  """
  if not 0 <= weight < 1:
    raise errors.SettingError(f"--smoothing={weight}: expected a number of at least 0 and below 1.")
  smoothed, total, share = [], 0.0, 0.0
  for value in values:
    if not math.isnan(value):
      total, share = weight * total + (1 - weight) * value, weight * share + 1 - weight
    smoothed.append(math.nan if math.isnan(value) else total / share)
  return smoothed


def _rank(name, drawn):
  return (
    name in _LAST,
    name != "loss",
    all(curve.kind == metrics_file.TRAIN for curve in drawn.values()),
    name,
  )


def label(metric):
  """What is written at the axis of a metric."""
  return _LABELS.get(metric, metric)


def _for_a_page(svg, title):
  """An SVG file's text as an element that takes the width that it is given, and the page's
  colour for its text.
  """
  svg = svg[svg.index("<svg") :]
  # Ids of which a page must have no two, and which nothing here refers to.
  svg = re.sub(r'<g id="[^"]*"', "<g", svg)
  svg = re.sub(r' (width|height)="[^"]*"', "", svg, count=2)  # those of the whole come first
  return svg.replace(_TEXT_COLOR, "currentColor").replace(
    "<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1
  )


def _steps_shown(found):
  """(first, last) step of the axes, the same in all panels."""
  steps = [step for drawn in found.values() for curve in drawn for step in curve.steps]
  margin = 0.03 * (max(steps) - min(steps)) or 1
  return min(steps) - margin, max(steps) + margin


class _Styles:
  """Which colour, dashes and marker a curve has: the same in all panels."""

  def __init__(self, found):
    drawn = [curve for curves in found.values() for curve in curves]
    self._runs = list(dict.fromkeys(curve.run for curve in drawn))
    kinds = {curve.kind for curve in drawn}
    self._kinds = sorted(kinds, key=lambda kind: (kind != metrics_file.TRAIN, kind))
    self._styles = dict(
      zip(
        self._kinds,
        self._cycle(_STYLES[metrics_file.TRAIN not in kinds :], len(kinds)),
        strict=True,
      )
    )

  def of(self, run, kind):
    """(colour, dashes, marker)."""
    if len(self._runs) == 1:
      return self._colors(len(self._kinds))[self._kinds.index(kind)], *self._styles[kind]
    return self._colors(len(self._runs))[self._runs.index(run)], *self._styles[kind]

  def entries(self):
    """[(label, style)] of a legend."""
    if len(self._runs) == 1:
      return [(kind, self.of(self._runs[0], kind)) for kind in self._kinds]
    by_run = [
      (run, (color, "-", ""))
      for run, color in zip(self._runs, self._colors(len(self._runs)), strict=True)
    ]
    return by_run + [(kind, (_TEXT_COLOR, *style)) for kind, style in self._styles.items()]

  @staticmethod
  def _cycle(styles, count):
    return [styles[index % len(styles)] for index in range(count)]

  @staticmethod
  def _colors(count):
    """As many colours: those of the palette, or, where they are too few, a row that is told
    apart by its lightness.
    """
    if count <= len(_COLORS):
      return _COLORS[:count]
    import matplotlib

    return [
      matplotlib.colors.to_hex(matplotlib.colormaps["viridis"](0.95 * index / (count - 1)))
      for index in range(count)
    ]


def _draw(axes, metric, drawn, styles, smoothing):
  from matplotlib import ticker

  for curve in drawn:
    color, dashes, marker = styles.of(curve.run, curve.kind)
    few = len(curve.steps) == 1
    smoothed = bool(smoothing) and curve.kind == metrics_file.TRAIN
    if smoothed:
      axes.plot(curve.steps, curve.values, color=color, linewidth=1, alpha=0.25)
    values = smooth(curve.values, smoothing) if smoothed else curve.values
    axes.plot(
      curve.steps,
      values,
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
  """Numbers at the axis as they are, without a common offset or power of ten that a reader has
  to multiply with.
  """
  low, high = axes.get_ylim()
  if max(abs(low), abs(high)) >= 10_000:
    return lambda value, _: f"{value:,.0f}"
  return lambda value, _: f"{value:.6g}"


def _line(name, style):
  from matplotlib import lines

  color, dashes, marker = style
  return lines.Line2D(
    [], [], color=color, linestyle=dashes, marker=marker, markersize=4, linewidth=1.5, label=name
  )


@contextlib.contextmanager
def _matplotlib(text_color="black", as_text=False):
  """matplotlib's Figure, with our settings inside."""
  try:
    import matplotlib
    from matplotlib import figure
  except ImportError as error:
    raise errors.SettingError(
      f"Curves need matplotlib: pip install 'octet[plot]' ({error})."
    ) from error
  logging.getLogger("matplotlib").setLevel(logging.WARNING)  # below it, it tells of its fonts
  colors = dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"),
    text_color,
  )
  with matplotlib.rc_context(
    {
      **matplotlib.rcParamsDefault,
      **colors,
      "svg.hashsalt": "octet",
      "svg.fonttype": "none" if as_text else "path",
      "font.size": 10,
    }
  ):
    yield figure.Figure
