"""Draws the figures of a sweep's page as <svg> elements in the page's text colour.

Optuna computes the importances. Its plots do not fit here: its plotly plots need a script in the
page; its matplotlib plots use pyplot's global state, and leave out pruned trials and trials without
a conditional parameter.
"""

import contextlib
import itertools
import math
import warnings

from trainer.cli import formatting
from trainer.plot import svg
from trainer.sweep import optuna_parts, report

# Below this number of complete trials a parameter, the page calls importances uncertain. A rule of
# thumb.
_FEW_A_PARAMETER = 20

_LETTERS_OF_A_LINE = 14  # Of the name of an axis.

_DOT, _BEST, _PRUNED, _BREAKS = "#0072b2", "#d55e00", "#999999", "#cc79a7"
_BREAKS_LABEL = "breaks a constraint"


def history(found: report.Report) -> str:
  """Draws the first metric of each trial by number, and the best so far; "" without a value."""
  known = sorted(found.ranked(), key=lambda trial: trial.number)
  if not known:
    return ""
  with _axes(7, 3, f"{found.metrics[0]} of each trial") as (axes, made):
    complete = [trial for trial in known if found.state(trial) == "complete"]
    keeping = [trial for trial in complete if not optuna_parts.violated(trial)]
    for some, color, label in (
      (keeping, _DOT, "complete"),
      (_breaking(complete), _BREAKS, _BREAKS_LABEL),
      ([trial for trial in known if found.state(trial) == "pruned"], _PRUNED, "pruned"),
    ):
      _dots(axes, [(trial.number, found.values(trial)[0]) for trial in some], color, label)
    values = (found.values(trial)[0] for trial in keeping)
    best = list(itertools.accumulate(values, max if found.modes[0] == "max" else min))
    axes.step(
      [trial.number for trial in keeping], best, where="post", color=_BEST, label="best so far"
    )
    axes.set_xlabel("trial")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(found.metrics[0])
    _legend(axes)
  return made[0]


def parallel_coordinates(found: report.Report) -> str:
  """Draws a line for each trial through its parameters and its first metric.

  The metric gives the colour. Returns "" if fewer than two trials have a value.
  """
  trials = [trial for trial in found.ranked() if trial.user_attrs.get("bindings")]
  if len(trials) < 2:
    return ""
  values = [found.values(trial)[0] for trial in trials]
  columns = [
    (name, [found.texts(trial).get(key) for trial in trials])
    for key, name in zip(found.keys, formatting.short_names(found.keys), strict=True)
  ]
  axis_values = [
    _axis(texts, found.is_logarithmic(key))
    for key, (_, texts) in zip(found.keys, columns, strict=True)
  ]
  axis_values += [_axis([repr(value) for value in values], few=0)]
  names = [name for name, _ in columns] + [found.metrics[0]]
  with _axes(max(7, 1.9 * len(names)), 4, "Parameters and metric of each trial") as (axes, made):
    scale = _color_scale(values, found.modes[0] == "max")
    # Draw the best trials last, over the other trials.
    for row in sorted(
      range(len(trials)), key=lambda row: values[row], reverse=found.modes[0] == "min"
    ):
      axes.plot(
        range(len(names)),
        [positions[row] for positions, _ in axis_values],
        color=scale.to_rgba(values[row]),
        linewidth=1,
        alpha=0.8,
      )
    for index, (_, ticks) in enumerate(axis_values):
      axes.axvline(index, color=svg.TEXT_COLOR, linewidth=0.8)
      for position, text in ticks:
        axes.annotate(
          text,
          (index, position),
          xytext=(3, 0),
          textcoords="offset points",
          fontsize="x-small",
          va="center",
          color=svg.TEXT_COLOR,
          # Lines go through the labels.
          bbox=dict(facecolor=svg.PAGE_COLOR, edgecolor="none", alpha=0.75, pad=0.6),
        )
    axes.figure.colorbar(scale, ax=axes, label=found.metrics[0], aspect=40, pad=0.01)
    axes.set_xticks(range(len(names)), list(map(_in_two_lines, names)))
    axes.set_yticks([])
    axes.set_xlim(-0.1, len(names) - 0.5)
    axes.spines[:].set_visible(False)
  return made[0]


def _color_scale(values, best_is_high):
  """Returns matplotlib's map from a metric to a colour, from the worst to the best."""
  import matplotlib
  from matplotlib import cm, colors

  # The ends of viridis are invisible on a dark or on a white page.
  shades = matplotlib.colormaps["viridis"]([0.25 + 0.55 * index / 31 for index in range(32)])
  low, high = min(values), max(values)
  known = colors.Normalize(low if low < high else low - 1, high)
  return cm.ScalarMappable(known, colors.ListedColormap(shades if best_is_high else shades[::-1]))


def importances(found: report.Report) -> dict[str, float]:
  """Returns each parameter's share in the variation of the first metric, computed by Optuna.

  The result is {} if too few trials are complete.
  """
  optuna = optuna_parts.library()
  sign = -1 if found.modes[0] == "max" else 1  # The target makes lower values better.
  target = (lambda trial: sign * trial.values[0]) if len(found.metrics) > 1 else None
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
      shares = optuna.importance.get_param_importances(found.study, target=target)
    except (ValueError, RuntimeError):  # Fewer than two complete trials, or all values are equal.
      return {}
  # Equal shares are Optuna's answer if it could tell nothing.
  return shares if len(shares) == 1 or len(set(shares.values())) > 1 else {}


def caveat(found: report.Report) -> str:
  """Returns a sentence or two about the data behind the importances and their reliability."""
  count = found.counts().get("complete", 0)
  few = _FEW_A_PARAMETER * len(found.keys)
  text = f"Estimated by Optuna from {count} complete trials."
  if count >= few:
    return text
  return (
    f"{text} That is few for {len(found.keys)} parameters: the shares change with each further "
    f"trial. Count on them from about {few} trials on, and take the figure below for the rest."
  )


def pareto(found: report.Report) -> str:
  """Draws the first two metrics against each other, the best trials in another colour.

  Returns "" if there is one metric, or no complete trial.
  """
  complete = [trial for trial in found.trials if found.state(trial) == "complete"]
  if len(found.metrics) < 2 or not complete:
    return ""
  with _axes(5, 4, f"{found.metrics[0]} and {found.metrics[1]} of each trial") as (axes, made):
    for some, color, label in (
      (complete, _DOT, "complete"),
      (_breaking(complete), _BREAKS, _BREAKS_LABEL),
      (found.best(), _BEST, "best"),
    ):
      _dots(axes, [trial.values[:2] for trial in some], color, label)
    axes.set_xlabel(found.metrics[0])
    axes.set_ylabel(found.metrics[1])
    _legend(axes)
  return made[0]


def _axis(texts, log=False, few=8):
  """Places gin texts on an axis, linear or logarithmic.

  If there are at most `few` different texts, or if one is not a number, each text gets a tick of
  its own. None, for a parameter that a trial lacks, is at the bottom.

  Returns:
    The position of each text, from 0 to 1, and the (position, label) pairs of the ticks.
  """
  numbers = [_number(text) for text in texts if text is not None]
  different = sorted({text for text in texts if text is not None})
  if len(different) <= few or None in numbers:
    order = sorted(different, key=lambda text: (_number(text) is None, _number(text) or 0.0, text))
    places = {text: (index + 0.5) / len(order) for index, text in enumerate(order)}
    return [places.get(text, 0.0) for text in texts], [
      (place, _short(text)) for text, place in places.items()
    ]
  scale = math.log if log else float
  low, high = scale(min(numbers)), scale(max(numbers))
  span = high - low or 1.0
  ticks = [low + span * share for share in (0, 0.25, 0.5, 0.75, 1)]
  shown = [((tick - low) / span, f"{math.exp(tick) if log else tick:.3g}") for tick in ticks]
  return [0.0 if text is None else (scale(float(text)) - low) / span for text in texts], shown


def _breaking(trials):
  return [trial for trial in trials if optuna_parts.violated(trial)]


def _dots(axes, points, color, label):
  if points:  # Otherwise no entry in the legend.
    axes.scatter(*zip(*points, strict=True), s=18, color=color, label=label)


def _legend(axes):
  # Above the axes: inside, it would cover the lines.
  axes.figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize="small")


def _number(text):
  try:
    return float(text)
  except ValueError:
    return None


def _in_two_lines(name):
  """Breaks a long name at the place nearest to its middle where it may break."""
  places = [place for place, letter in enumerate(name, 1) if letter in "_./"]
  if len(name) <= _LETTERS_OF_A_LINE or not places:
    return name
  middle = min(places, key=lambda place: abs(place - len(name) / 2))
  return f"{name[:middle]}\n{name[middle:]}"


def _short(text):
  return text if len(text) <= 22 else f"{text[:9]}…{text[-12:]}"


@contextlib.contextmanager
def _axes(width, height, label):
  """Yields the axes of a figure (size in inches) and a list that receives the <svg> at the end."""
  with svg.figure_class(svg.TEXT_COLOR) as figure_class:
    drawn = figure_class(figsize=(width, height), layout="constrained")
    axes = drawn.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    made: list[str] = []
    yield axes, made
    made.append(svg.element(drawn, label))
