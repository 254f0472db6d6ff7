"""The report as one page that needs nothing else: no script, no network."""

import html

from trainer.plot import html_page
from trainer.preflight import memory, report

_STYLE = """
.passed { color: var(--passed); } .failed { color: var(--failed); }
.bar { background: var(--line); max-width: 20rem; height: .9rem; } .bar div { background: var(--bar); height: 100%; }
.array { white-space: nowrap; }
.bar.over div { background: var(--failed); }
"""


def page(results, title):
  """The page.

  Args:
    results: list of what `report.as_dict` returns.
    title: what was compiled.
  """
  shown = html.escape(title or "an experiment")
  rows = "".join(_summary_row(result) for result in results)
  names = (
    "step",
    "topology",
    "batch a core",
    "result",
    "memory a core",
    "MFLOP an example",
    "all-reduced",
    "a step takes*",
  )
  head = "".join(f"<th>{name}</th>" for name in names)
  body = (
    f"<h1>Preflight: <code>{shown}</code></h1><div "
    f'class="table"><table><tr>{head}</tr>{rows}</table></div>'
    "<p>All figures are of one core, counted by the TPU compiler; nothing was run. * An "
    "estimate, not a prediction.</p>" + "".join(_section(result) for result in results)
  )
  return html_page.page(f"Preflight: {title or 'an experiment'}", body, _STYLE)


def _summary_row(result):
  reduces = result.get("all_reduces") or {}
  estimate = result.get("estimated_step_seconds")
  cells = [
    html.escape(result["step"]),
    html.escape(result["topology"]),
    _number(result["per_core_batch"]),
    _verdict(result),
    _number(memory.shown(_memory(result)) if _memory(result) else ""),
    _number(f"{result['flops_per_example'] / 1e6:,.3f}" if "flops_per_example" in result else ""),
    _number(
      f"{memory.shown(reduces['bytes'])} in {reduces['count']}" if reduces.get("count") else ""
    ),
    _number(f"{1e3 * estimate['low']:.3g}–{1e3 * estimate['high']:.3g} ms" if estimate else ""),
  ]
  return (
    "<tr>"
    + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in cells)
    + "</tr>"
  )


def _section(result):
  parts = [
    f"<h2>{html.escape(result['step'])} on {html.escape(result['topology'])} "
    f"{_verdict(result)}</h2>"
  ]
  parts.append(
    "<p>"
    + " → ".join(
      f"{html.escape(stage)} {seconds:.1f} s" for stage, seconds in result["stage_seconds"].items()
    )
    + "</p>"
  )
  if result["problem"]:
    parts.append(f"<pre>{html.escape(result['problem'])}</pre>")
  if needed := _memory(result):
    share = needed / result["available_bytes"]
    parts.append(
      f'<div class="bar{" over" if share > 1 else ""}"><div style="width: '
      f'{min(share, 1):.1%}"></div></div>'
      f"<p>{memory.shown(needed)} of a core's {memory.shown(result['available_bytes'])} "
      f"({share:.1%})</p>"
    )
  if rows := "".join(
    f"<tr><td>{name}</td><td>{html.escape(text)}</td></tr>" for name, text in report.figures(result)
  ):
    parts.append(f'<div class="table"><table>{rows}</table></div>')
  if result["largest_buffers"]:
    rows = "".join(
      f'<tr><td class="number">{memory.shown(b["bytes"])}</td><td '
      f'class="number">{memory.shown(b["bytes_without_padding"])}</td>'
      f'<td class="number">{b["count"]}</td><td '
      f'class="array"><code>{html.escape(b["array"])}</code></td>'
      f"<td><code>{html.escape(b['op'])}</code></td></tr>"
      for b in result["largest_buffers"]
    )
    head = "".join(
      f"<th>{name}</th>"
      for name in ("stored as", "without padding", "how many", "array", "made by")
    )
    parts.append(f'<div class="table"><table><tr>{head}</tr>{rows}</table></div>')
  for name, sentences in (
    ("Padding", result["padding_advice"]),
    ("Where the figures mislead", result["warnings"]),
  ):
    if sentences:
      parts.append(
        f"<h3>{name}</h3><ul>"
        + "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
        + "</ul>"
      )
  if search := result.get("batch_search"):
    tried = ", ".join(
      f"{batch} {'fits' if fits else 'does not fit'}" for batch, fits in search["tried"]
    )
    parts.append(
      f"<p>Largest per-core batch found to fit: <b>{search['largest'] or 'none'}</b> ({tried}).</p>"
    )
  return "".join(parts)


def _memory(result):
  return result.get("allocated_bytes") or result.get("needed_bytes") or 0


def _verdict(result):
  return (
    '<span class="passed">passed</span>'
    if result["passed"]
    else f'<span class="failed">failed: {html.escape(result["failed_stage"])}</span>'
  )


def _number(text):
  return f'<td class="number">{text}</td>'
