"""The report as one page that needs nothing else: no script, no network."""

import html

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }
table { border-collapse: collapse; margin: .5rem 0 1rem; } th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; } .passed { color: #176317; } .failed { color: #a31515; }
.bar { background: #e4e4e4; width: 20rem; height: .9rem; } .bar div { background: #3569a8; height: 100%; } .over div { background: #a31515; }
pre { white-space: pre-wrap; background: #f6f6f6; padding: .6rem; } code { font-size: .92em; }
"""


def page(results, title):
  """The page.

  Args:
    results: list of what `report.as_dict` returns.
    title: what was compiled.
  """
  shown = html.escape(title or "an experiment")
  rows = "".join(_summary_row(result) for result in results)
  names = "step", "topology", "batch a core", "", "memory a core", "MFLOP an example", "all-reduced", "estimate*"
  head = "".join(f"<th>{name}</th>" for name in names)
  return (
      f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Preflight: {shown}</title><style>{_STYLE}</style></head><body>'
      f"<h1>Preflight: <code>{shown}</code></h1><table><tr>{head}</tr>{rows}</table>"
      "<p>All figures are of one core, counted by the TPU compiler; nothing was run. * An estimate, not a prediction.</p>"
      + "".join(_section(result) for result in results) + "</body></html>\n")


def _summary_row(result):
  reduces = result.get("all_reduces") or {}
  estimate = result.get("estimated_step_seconds")
  cells = [
      html.escape(result["step"]), html.escape(result["topology"]), _number(result["per_core_batch"]), _verdict(result),
      _number(f"{_memory(result) / 2**20:,.1f} MiB" if _memory(result) else ""),
      _number(f"{result['flops_per_example'] / 1e6:,.3f}" if "flops_per_example" in result else ""),
      _number(f"{reduces['bytes'] / 2**20:,.2f} MiB in {reduces['count']}" if reduces.get("count") else ""),
      _number(f"{1e3 * estimate['low']:.3g}–{1e3 * estimate['high']:.3g} ms" if estimate else "")]
  return "<tr>" + "".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _section(result):
  parts = [f"<h2>{html.escape(result['step'])} on {html.escape(result['topology'])} {_verdict(result)}</h2>"]
  parts.append("<p>" + " → ".join(f"{html.escape(stage)} {seconds:.1f} s" for stage, seconds in result["stage_seconds"].items()) + "</p>")
  if result["problem"]:
    parts.append(f"<pre>{html.escape(result['problem'])}</pre>")
  if needed := _memory(result):
    share = needed / result["available_bytes"]
    parts.append(
        f'<div class="bar{" over" if share > 1 else ""}"><div style="width: {min(share, 1):.1%}"></div></div>'
        f"<p>{needed / 2**30:,.3f} of {result['available_bytes'] / 2**30:,.2f} GiB ({share:.1%})</p>")
  if result["largest_buffers"]:
    rows = "".join(
        f'<tr><td class="number">{b["bytes"] / 2**20:,.1f} MiB</td><td class="number">{b["bytes_without_padding"] / 2**20:,.1f} MiB</td>'
        f'<td class="number">{b["count"]}</td><td><code>{html.escape(b["array"])}</code></td><td><code>{html.escape(b["op"])}</code></td></tr>'
        for b in result["largest_buffers"])
    parts.append(f"<table><tr><th>stored as</th><th>without padding</th><th>how many</th><th>array</th><th>made by</th></tr>{rows}</table>")
  for name, sentences in (("Padding", result["padding_advice"]), ("Where the figures mislead", result["warnings"])):
    if sentences:
      parts.append(f"<h3>{name}</h3><ul>" + "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences) + "</ul>")
  if search := result.get("batch_search"):
    tried = ", ".join(f"{batch} {'fits' if fits else 'does not fit'}" for batch, fits in search["tried"])
    parts.append(f"<p>Largest per-core batch found to fit: <b>{search['largest'] or 'none'}</b> ({tried}).</p>")
  if cost := result.get("estimated_epoch_cost"):
    parts.append(
        f"<p>Estimated cost of an epoch: {cost['low']:.3g} to {cost['high']:.3g} {html.escape(cost['currency'])}, at {cost['per_hour']:g} an hour "
        f"({html.escape(cost['source'])}, {html.escape(cost['date'])}).</p>")
  return "".join(parts)


def _memory(result):
  return result.get("allocated_bytes") or result.get("needed_bytes") or 0


def _verdict(result):
  return '<span class="passed">passed</span>' if result["passed"] else f'<span class="failed">failed: {html.escape(result["failed_stage"])}</span>'


def _number(text):
  return f'<td class="number">{text}</td>'
