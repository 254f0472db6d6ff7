"""Shows a sweep as an HTML page."""

import os

from trainer.plot import curves, html_page
from trainer.reporting import metrics_file
from trainer.sweep import report

# Draw the learning curves of so many of the best trials.
_TOP = 5


def page(found: report.Report, sweep_dir: str) -> str:
  """Returns the text of the page.

  Args:
    found: the report of the sweep.
    sweep_dir: the sweep's folder, with its trials. Folders of trials from another machine may be
      missing.
  """
  ranked = found.ranked()
  shown = {one.number for one in ranked}
  others = [one for one in found.trials if one.number not in shown]
  header, rows, numbers = found.table([*ranked, *others])
  panels, panels_of = _learning_curves(found, sweep_dir)
  return html_page.render(
    "sweep/sweep.html",
    title=f"Sweep {found.name}",
    name=found.name,
    counts=", ".join(f"{count} {state}" for state, count in found.counts().items()),
    goal=_goal(found),
    best=[found.gin(one) for one in found.best()],
    panels=panels,
    panels_of=panels_of,
    header=header,
    rows=rows,
    numbers=numbers,
  )


def _goal(found):
  """Returns a phrase such as "highest accuracy and lowest loss"."""
  return " and ".join(
    f"{'highest' if mode == 'max' else 'lowest'} {metric}"
    for metric, mode in zip(found.metrics, found.modes, strict=True)
  )


def _learning_curves(found, sweep_dir):
  """(SVGs, the number of trials in them)."""
  folders = [found.folder(sweep_dir, one) for one in found.ranked()]
  drawable = [folder for folder in folders if os.path.isdir(folder) and metrics_file.read(folder)]
  best = drawable[:_TOP]
  if not best:
    return [], 0
  wanted = {"loss", *found.metrics}
  drawn = {metric: lines for metric, lines in curves.collect(best).items() if metric in wanted}
  return list(curves.svgs(drawn).values()), len(best)
