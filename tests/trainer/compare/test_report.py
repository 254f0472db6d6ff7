"""The report: its numbers are those of the rows; kinds of figures are told apart."""

import csv
import html.parser
import io
import re

import pytest

from tests.trainer.compare import fake_rows
from trainer import errors
from trainer.compare import figures, report, summary

ROWS, FOUND = fake_rows.ROWS, fake_rows.FOUND


def test_the_csv_has_the_figures_of_the_rows():
  lines = list(csv.DictReader(io.StringIO(report.table(FOUND))))
  assert len(lines) == len(ROWS) + 2
  for row, line in zip(ROWS, lines, strict=False):
    for name in ("seconds", "low", "high", "examples_per_second"):
      value = getattr(row, name)
      assert line[name] == ("" if value is None else repr(value))
    assert (line["kind"], line["status"]) == (row.kind, row.status)
  assert lines[1]["run_seconds"] == "5.0"
  assert float(lines[1]["epoch_cost"]) == pytest.approx(0.001)
  assert lines[2]["run_seconds"] == "0.4–1.0"
  assert lines[-2]["kind"] == "published"
  assert lines[-2]["seconds"] == "3.0"


class Cells(html.parser.HTMLParser):
  """The texts of the cells, and what the page refers to."""

  def __init__(self, text):
    super().__init__()
    self.cells, self.references, self._inside = [], [], False
    self.feed(text)

  def handle_starttag(self, tag, attrs):
    self.references += [value for name, value in attrs if name in ("src", "href")]
    self._inside = tag in ("td", "th")
    if self._inside:
      self.cells.append("")

  def handle_endtag(self, tag):
    self._inside = self._inside and tag not in ("td", "th")

  def handle_data(self, data):
    if self._inside:
      self.cells[-1] += data


def test_the_page_has_all_and_needs_nothing_else():
  page = report.page(
    FOUND, {"times": figures.Chart(b"", "<svg>a chart</svg>")}, {"gpu:2": "there are 1"}
  )
  found = Cells(page)
  assert found.references == []
  assert '<figure class="wide"><svg>a chart</svg></figure>' in page
  # In a narrow window each cell says what it is.
  assert '<td class="number" data-title="step or call">250 ms</td>' in page
  for cell in (
    "250 ms",
    "200–300 ms",
    "gpu (Tesla P100-PCIE-16GB)",
    "20–50 ms",
    "out of memory",
    "no room",
    "gpu:2",
    "there are 1",
    "three seconds",
    "1.44",
    "2",
  ):
    assert cell in found.cells
  assert re.findall("<li>(.*)", page.partition("<h2>Sources")[2]) == [
    "an article</li>",
    "a page</li>",
  ]
  headings = re.findall("<h2>(.*?)</h2>", page)
  assert headings == [
    "Fastest and cheapest",
    "Charts",
    "Costs",
    "Measured",
    "Estimated",
    "Not measured",
    "Published",
    "Prices of an hour",
    "Sources",
    "Machines",
  ]


UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


def seconds_in(text):
  """Returns the time that a text such as "1.22 ms" says."""
  number, unit = text.split(" ")
  return float(number.replace(",", "")) * UNITS[unit]


def test_the_numbers_on_the_page_are_those_of_the_rows():
  rows = [
    fake_rows.row(0.123456, start_seconds=61.77, input_wait=0.123),
    fake_rows.row(3.21987, "cpu:8", start_seconds=1.5),
    fake_rows.row(0.00045678, "gpu", accuracy=0.876, accuracy_steps=1500),
  ]
  found = Cells(report.page(summary.Summary(rows), {}, {}))
  start = found.cells.index("step or call") - 2
  titles = found.cells[start : found.cells.index("accuracy") + 1]
  assert "device memory" not in titles  # of which there is none
  start += len(titles)
  for row in rows:
    line = dict(zip(titles, found.cells[start : start + len(titles)], strict=True))
    start += len(titles)
    assert seconds_in(line["step or call"]) == pytest.approx(row.seconds, rel=5e-3)
    assert seconds_in(line["epoch"]) == pytest.approx(10 * row.seconds, rel=5e-3)
    assert seconds_in(line["run"]) == pytest.approx(20 * row.seconds, rel=5e-3)
    assert seconds_in(line["start*"]) == pytest.approx(row.start_seconds, rel=5e-3)
    rate = float(line["examples/s"].replace(",", ""))
    assert rate == pytest.approx(row.examples_per_second, rel=5e-3)
    assert line["input wait"] == f"{100 * row.input_wait:.0f}%"
    assert line["memory"] == "1.00 GiB"
    assert line["accuracy"] == ("87.6% after 1,500 steps" if row.accuracy else "")


def test_the_best_are_named():
  lines = report.text(FOUND).splitlines()
  assert re.search(r"net, batch 10 +gpu \(Tesla P100.* 5 s in all .*0.002 USD in all", lines[1])
  assert report.text(summary.Summary([])) == "No measurement."
  assert "only rehearsed" in report.text(summary.Summary([fake_rows.row(1.0, "cpu:8")]))
  assert "not measured" in report.text(summary.Summary([fake_rows.estimate(0.02, 0.05)]))


def test_a_folder_that_cannot_be_written(tmp_path):
  with pytest.raises(errors.OutputError, match="--output"):
    report.write(str(tmp_path / "none"), summary.Summary([]), {})
