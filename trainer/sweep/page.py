"""Shows a sweep as an HTML page."""

import os

from trainer.cli import formatting
from trainer.plot import curves, html_page
from trainer.reporting import metrics_file
from trainer.sweep import figures, report

# Draw the learning curves of so many of the best trials.
_TOP = 5


def page(found: report.Report, sweep_dir: str) -> str:
  """Returns the text of the page.

  Args:
    found: the report of the sweep.
    sweep_dir: the sweep's folder, with its trials. Folders of trials from another machine may be
      missing.
  """
  header, rows, numbers = _table(found)
  panels, panels_of = _learning_curves(found, sweep_dir)
  return html_page.render(
    "sweep/sweep.html",
    title=f"Sweep {found.name}",
    name=found.name,
    counts=", ".join(f"{count} {state}" for state, count in found.counts().items()),
    goal=_goal(found),
    best=[found.gin(one) for one in found.best()],
    figures=[("History", figures.history(found)), ("Objectives", figures.pareto(found))],
    metric=found.metrics[0],
    importances=figures.importances(found),
    caveat=figures.caveat(found),
    parameters=figures.parallel_coordinates(found),
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


def _table(found):
  """Returns titles, rows (ranked trials first), and indices of the columns with numbers."""
  ranked = found.ranked()
  numbers = {one.number for one in ranked}
  others = [one for one in found.trials if one.number not in numbers]
  header, rows = found.rows([*ranked, *others])
  with_numbers = ("trial", *found.columns, "steps", "seconds")
  aligned = [index for index, name in enumerate(header) if name in with_numbers]
  header[-1 - len(found.keys) : -1] = formatting.short_names(found.keys)
  return header, [list(map(report.brief, row)) for row in rows], aligned


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
