"""Shows the preflight's report as an HTML page."""

from typing import Any

from trainer.cli import formatting
from trainer.plot import html_page
from trainer.preflight import report


def page(results: list[dict[str, Any]], title: str) -> str:
  """Returns the text of the page.

  Args:
    results: what `report.as_dict` returns, one dict for each step.
    title: name of the experiment, such as its gin file; "" if it has none.
  """
  name = title or "an experiment"
  steps = [_shown(result) for result in results]
  return html_page.render(
    "preflight/report.html", title=f"Preflight: {name}", name=name, steps=steps
  )


def _shown(result):
  """Returns a step's result with its figures as text."""
  needed = result.get("allocated_bytes") or result.get("needed_bytes") or 0
  reduces = result.get("all_reduces") or {}
  time = result.get("estimated_step_seconds")
  flops = result.get("flops_per_example")
  return dict(
    result,
    memory=formatting.memory_size(needed) if needed else "",
    available=formatting.memory_size(result["available_bytes"]),
    share=needed / result["available_bytes"],
    mflop=f"{flops / 1e6:,.3f}" if flops is not None else "",
    all_reduced=f"{formatting.memory_size(reduces['bytes'])} in {reduces['count']}"
    if reduces.get("count")
    else "",
    milliseconds=f"{1e3 * time['low']:.3g}–{1e3 * time['high']:.3g} ms" if time else "",
    figures=list(report.figures(result)),
    batch_search=result.get("batch_search"),
    buffers=[
      dict(
        buffer,
        size=formatting.memory_size(buffer["bytes"]),
        content=formatting.memory_size(buffer["bytes_without_padding"]),
      )
      for buffer in result["largest_buffers"]
    ],
  )
