"""The figures of a sweep's page, as <svg> elements in the colour of the text around them."""

import contextlib
import html
import io
import logging
import math
import re
import warnings

from trainer import errors
from trainer.sweep import optuna_parts, report

# Stands for the colour of the page's text, which is known where the figure is shown, on a light or
# on a dark page.
_TEXT_COLOR = "#010203"
_DOT, _BEST, _PRUNED = "#0072b2", "#d55e00", "#999999"


def history(found):
  """The first metric of all trials by number, and the best so far; "" if no trial has one."""
  known = sorted(found.ranked(), key=lambda trial: trial.number)
  if not known:
    return ""
  with _axes(7, 3, f"{found.metrics[0]} of each trial") as (axes, made):
    for state, color in (("complete", _DOT), ("pruned", _PRUNED)):
      some = [trial for trial in known if found.state(trial) == state]
      axes.scatter(
        [trial.number for trial in some],
        [found.values(trial)[0] for trial in some],
        s=18,
        color=color,
        label=state,
      )
    complete = [trial for trial in known if found.state(trial) == "complete"]
    best, choose = [], max if found.modes[0] == "max" else min
    for trial in complete:
      best.append(choose([found.values(trial)[0], *best[-1:]]))
    axes.step(
      [trial.number for trial in complete], best, where="post", color=_BEST, label="best so far"
    )
    axes.set_xlabel("trial")
    axes.set_ylabel(found.metrics[0])
    axes.legend(frameon=False, fontsize="small")
  return made[0]


def parallel_coordinates(found):
  """A line a trial, through its parameters and its first metric, the colour by the metric; ""
  with fewer than two trials.
  """
  trials = [trial for trial in found.ranked() if trial.user_attrs.get("bindings")]
  if len(trials) < 2:
    return ""
  import matplotlib

  values = [found.values(trial)[0] for trial in trials]
  columns = [
    (name, [found.texts(trial).get(key) for trial in trials])
    for key, name in zip(found.keys, report.short_names(found.keys), strict=True)
  ]
  axis_values = [
    _axis(texts, found.is_logarithmic(key))
    for key, (_, texts) in zip(found.keys, columns, strict=True)
  ]
  axis_values += [_axis([repr(value) for value in values], few=0)]
  names = [name for name, _ in columns] + [found.metrics[0]]
  with _axes(max(7, 1.9 * len(names)), 4, "Parameters and metric of each trial") as (axes, made):
    low, high = min(values), max(values)
    for row in sorted(
      range(len(trials)), key=lambda row: values[row], reverse=found.modes[0] == "min"
    ):
      share = (values[row] - low) / (high - low) if high > low else 1.0
      color = matplotlib.colormaps["viridis"](share if found.modes[0] == "max" else 1 - share)
      axes.plot(
        range(len(names)),
        [positions[row] for positions, _ in axis_values],
        color=color,
        linewidth=1,
        alpha=0.8,
      )
    for index, (_, ticks) in enumerate(axis_values):
      axes.axvline(index, color=_TEXT_COLOR, linewidth=0.8)
      for position, text in ticks:
        axes.annotate(
          text,
          (index, position),
          xytext=(3, 0),
          textcoords="offset points",
          fontsize="x-small",
          va="center",
          color=_TEXT_COLOR,
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks([])
    axes.set_xlim(-0.1, len(names) - 0.5)
    axes.spines[:].set_visible(False)
  return made[0]


def importances(found):
  """dict of key → its share in what made the first metric good, from Optuna; {} while too few
  trials are complete to tell.
  """
  optuna = optuna_parts.library()
  sign = -1 if found.modes[0] == "max" else 1  # with a target, lower is better
  target = (lambda trial: sign * trial.values[0]) if len(found.metrics) > 1 else None
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
      shares = optuna.importance.get_param_importances(found.study, target=target)
    except (ValueError, RuntimeError):  # fewer than two complete trials, or all alike
      return {}
  return shares if len(shares) == 1 or len(set(shares.values())) > 1 else {}


def pareto(found):
  """The first two metrics against each other, the best in another colour; "" for one metric or
  no complete trial.
  """
  complete = [trial for trial in found.trials if found.state(trial) == "complete"]
  if len(found.metrics) < 2 or not complete:
    return ""
  with _axes(5, 4, f"{found.metrics[0]} and {found.metrics[1]} of each trial") as (axes, made):
    for some, color, label in ((complete, _DOT, "complete"), (found.best(), _BEST, "best")):
      axes.scatter(
        [trial.values[0] for trial in some],
        [trial.values[1] for trial in some],
        s=18,
        color=color,
        label=label,
      )
    axes.set_xlabel(found.metrics[0])
    axes.set_ylabel(found.metrics[1])
    axes.legend(frameon=False, fontsize="small")
  return made[0]


def _axis(texts, log=False, few=8):
  """(positions in 0..1, [(position, text)] of ticks) of gin texts on an axis, linear or
  logarithmic.

  Of up to `few` different texts, and of others than numbers, each has a tick of its own. A text
  that is None, of a parameter that does not count in a trial, is at the bottom.
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


def _number(text):
  try:
    return float(text)
  except ValueError:
    return None


def _short(text):
  return text if len(text) <= 22 else f"{text[:9]}…{text[-12:]}"


@contextlib.contextmanager
def _axes(width, height, label):
  """(axes, list that gets the <svg> at the end) of a figure of so many inches."""
  try:
    import matplotlib
    from matplotlib import figure
  except ImportError:
    raise errors.SettingError("The page needs matplotlib: pip install 'octet[sweep]'.") from None
  logging.getLogger("matplotlib").setLevel(logging.WARNING)
  colors = dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _TEXT_COLOR
  )
  with matplotlib.rc_context(
    {
      **matplotlib.rcParamsDefault,
      **colors,
      "svg.fonttype": "none",
      "svg.hashsalt": "octet",
      "font.size": 10,
    }
  ):
    drawn = figure.Figure(figsize=(width, height), layout="constrained")
    axes = drawn.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    made = []
    yield axes, made
    written = io.StringIO()
    drawn.savefig(written, format="svg", transparent=True, metadata={"Date": None})
  text = written.getvalue()
  text = re.sub(r'<g id="[^"]*"', "<g", text[text.index("<svg") :])
  text = re.sub(
    r'(<svg[^>]*?) (?:width|height)="[^"]*"',
    r"\1",
    re.sub(
      r"(<svg[^>]*?) "
      r'height="[^"]*"',
      r"\1",
      text,
      count=1,
    ),
    count=1,
  )
  made.append(
    text.replace(_TEXT_COLOR, "currentColor").replace(
      "<svg", f'<svg role="img" aria-label="{html.escape(label, quote=True)}"', 1
    )
  )
