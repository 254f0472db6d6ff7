"""Shows the preflight's report as an HTML page."""

from typing import Any

from trainer.plot import html_page
from trainer.preflight import report


def page(results: list[dict[str, Any]], title: str) -> str:
  """Returns the text of the page.

  Args:
    results: from `report.as_dict`, one dict for each step.
    title: name of the experiment, such as its gin file; "" if it has none.
  """
  name = title or "an experiment"
  steps = [dict(result, figures=list(report.figures(result))) for result in results]
  return html_page.render(
    "preflight/report.html", title=f"Preflight: {name}", name=name, steps=steps
  )
