"""The pages as a browser without a network shows them, where a Chromium is installed."""

import html
import json
import re
import shutil
import subprocess

import pytest

from trainer.plot import html_page

_NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, _NAMES)), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")


@pytest.fixture
def evaluate(tmp_path):
  """Returns what a script's expression gives in a page of a table, in a window of a width."""

  def evaluate(expression, width=1280, **table):
    template = (
      '{% extends "plot/frame.html" %}{% from "plot/macros.html" import table, sorting %}'
      "{% block body %}{{ table(header, rows, numbers, sortable) }}{{ sorting() }}{% endblock %}"
    )
    values = {"title": "A page", "numbers": (), "sortable": False, **table}
    text = html_page._environment().from_string(template).render(**values)
    answer = f"document.title = JSON.stringify(({expression})());"
    (tmp_path / "page.html").write_text(
      text.replace("</body>", f"<script>{answer}</script></body>")
    )
    done = subprocess.run(
      [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},800"),
        *("--dump-dom", f"--user-data-dir={tmp_path / 'profile'}", f"file://{tmp_path}/page.html"),
      ],
      capture_output=True,
      text=True,
      timeout=120,
      check=True,
    )
    return json.loads(html.unescape(re.search("<title>(.*?)</title>", done.stdout)[1]))

  return evaluate


ROWS = [["b", "0.5"], ["a", ""], ["c", "1,200"], ["d", "71 %"]]
CLICK = """() => {
  const button = document.querySelectorAll("th button")[COLUMN];
  for (let time = 0; time < TIMES; ++time) button.click();
  return [...document.querySelectorAll("tbody tr")].map(row => row.cells[0].textContent).join("");
}"""


@pytest.mark.parametrize(
  "column, times, order",
  [(0, 0, "bacd"), (0, 1, "dcba"), (0, 2, "abcd"), (1, 1, "cdba"), (1, 2, "bdca")],
)
def test_a_click_on_a_title_sorts_by_number_or_name(evaluate, column, times, order):
  script = CLICK.replace("COLUMN", str(column)).replace("TIMES", str(times))
  assert evaluate(script, header=["run", "share"], rows=ROWS, sortable=True) == order


SIZES = """() => [
  document.documentElement.scrollWidth - innerWidth,
  Math.max(...[...document.querySelectorAll("td")].map(cell => cell.getBoundingClientRect().right))
    <= innerWidth,
  getComputedStyle(document.querySelector("thead")).display]"""


def test_every_cell_of_a_wide_table_is_seen_in_a_narrow_window(evaluate):
  titles = [f"a rather long title {number}" for number in range(12)]
  rows = [[f"value-{number}" * 3 for number in range(12)]]
  beyond, fits, head = evaluate(SIZES, width=500, header=titles, rows=rows)
  assert (beyond, fits, head) == (0, True, "none")
