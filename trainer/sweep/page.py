"""A sweep as one HTML page that needs nothing else: no script, no network."""

import html
import os

from trainer.plot import curves, html_page
from trainer.reporting import metrics_file
from trainer.sweep import figures, report, trial

_TOP = 5

_STYLE = """
.table td { overflow-wrap: break-word; }
svg { width: 100%; height: auto; max-width: 62rem; } .curves { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); }
.bar { background: var(--box); width: 16rem; height: .9rem; } .bar div { background: var(--bar); height: 100%; }
"""


def page(found, sweep_dir):
  """The text of the page.

  Args:
    found: a report.Report.
    sweep_dir: the sweep's folder; learning curves are of those trials whose folders are in it.
  """
  counts = ", ".join(f"{count} {state}" for state, count in found.counts().items())
  ranked = found.ranked()
  numbers = {one.number for one in ranked}
  header, rows = found.rows([*ranked, *(one for one in found.trials if one.number not in numbers)])
  aligned = [
    index
    for index, name in enumerate(header)
    if name in ("trial", *found.metrics, "steps", "seconds")
  ]
  header[-1 - len(found.keys) : -1] = report.short_names(found.keys)
  parts = [
    f"<h1>Sweep <code>{html.escape(found.name)}</code></h1><p>{counts}; {_goal(found)}.</p>",
    _best(found),
    _titled("History", figures.history(found)),
    _titled("Objectives", figures.pareto(found)),
    _importances(found),
    _titled("Parameters", figures.parallel_coordinates(found)),
    _curves(found, sweep_dir),
    "<h2>Trials</h2>"
    + html_page.table(header, [list(map(report.brief, row)) for row in rows], aligned),
  ]
  return html_page.page(f"Sweep {found.name}", "".join(parts), _STYLE)


def _goal(found):
  return " and ".join(
    f"{'highest' if mode == 'max' else 'lowest'} {html.escape(metric)}"
    for metric, mode in zip(found.metrics, found.modes, strict=True)
  )


def _best(found):
  return "".join(f"<pre>{html.escape(found.gin(one))}</pre>" for one in found.best())


def _titled(title, figure):
  return f"<h2>{title}</h2>{figure}" if figure else ""


def _importances(found):
  shares = figures.importances(found)
  if not shares:
    return ""
  rows = "".join(
    f'<tr><td><code>{html.escape(key)}</code></td><td><div class="bar"><div style="width: '
    f'{share:.1%}"></div></div></td>'
    f'<td class="number">{share:.0%}</td></tr>'
    for key, share in shares.items()
  )
  return f'<h2>What mattered for {html.escape(found.metrics[0])}</h2><div class="table"><table>{rows}</table></div>'


def _curves(found, sweep_dir):
  folders = [trial.folder(sweep_dir, one.number) for one in found.ranked()]
  with_metrics = [
    folder for folder in folders if os.path.isdir(folder) and metrics_file.read(folder)
  ][:_TOP]
  if not with_metrics:
    return ""
  wanted = dict.fromkeys(["loss", *found.metrics])
  collected = {
    metric: drawn for metric, drawn in curves.collect(with_metrics).items() if metric in wanted
  }
  drawn = "".join(f"<div>{panel}</div>" for panel in curves.svgs(collected).values())
  return f'<h2>Learning curves of the best {len(with_metrics)} trials</h2><div class="curves">{drawn}</div>'
