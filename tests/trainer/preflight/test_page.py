"""The page of a preflight."""

import pytest

from trainer.plot import html_page
from trainer.preflight import page, report


@pytest.mark.parametrize(("title", "name"), [("a.gin", "a.gin"), ("", "an experiment")])
def test_the_page_has_the_figures_of_each_step(monkeypatch, title, name):
  rendered = []
  monkeypatch.setattr(
    html_page, "render", lambda *given, **values: rendered.append((given, values))
  )
  monkeypatch.setattr(report, "figures", lambda result: iter([("step", result["step"])]))
  page.page([{"step": "train"}, {"step": "eval"}], title)
  [((template,), values)] = rendered
  assert (template, values["title"], values["name"]) == (
    "preflight/report.html",
    f"Preflight: {name}",
    name,
  )
  assert values["steps"] == [
    {"step": "train", "figures": [("step", "train")]},
    {"step": "eval", "figures": [("step", "eval")]},
  ]
