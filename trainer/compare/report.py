"""Writes the report of a comparison: report.html, results.csv and a PNG for each chart.

    report.write("out/compare", summary.Summary(rows, prices.read(), published.read()), {})

The page contains its pictures and needs no other file.
"""

import csv
import io
import os
from collections.abc import Mapping
from typing import Any

from trainer.cli import formatting
from trainer.compare import advice, figures, results, summary
from trainer.io import local_files
from trainer.plot import html_page

_HEADER = (
  *("kind", "workload", "mode", "batch_size", "examples", "device", "hardware", "host"),
  *("precision", "status", "problem"),
  *("seconds", "low", "high", "slices", "examples_per_second", "start_seconds", "input_wait"),
  *("memory_bytes", "device_memory_bytes", "load", "accuracy", "accuracy_steps"),
  *("epoch_seconds", "run_seconds", "epoch_cost", "run_cost", "currency"),
  *("quantity", "over", "source"),
)
# The values of an estimate are ranges: "low–high".
_RANGE = "–"


def write(output: str, found: summary.Summary, skipped: Mapping[str, str]) -> list[str]:
  """Writes the files of the report; returns their paths, the page first.

  Args:
    output: the folder.
    found: the summary.
    skipped: device → why the comparison skipped it.

  Raises:
    OutputError: it cannot write a file.
    SettingError: matplotlib is missing.
  """
  pictures = figures.charts(found)
  texts: dict[str, str | bytes] = {
    "report.html": page(found, pictures, skipped),
    "results.csv": table(found),
    **{f"{name}.png": picture.png for name, picture in pictures.items()},
  }
  for name, text in texts.items():
    local_files.write(os.path.join(output, name), text, "--output")
  return [os.path.join(output, name) for name in texts]


def table(found: summary.Summary) -> str:
  """Returns the CSV: a line for each row and each published figure."""
  written = io.StringIO()
  lines = csv.DictWriter(written, _HEADER, restval="", lineterminator="\n")
  lines.writeheader()
  for row in found.rows:
    lines.writerow(_line(found, row))
  for figure in found.published:
    lines.writerow(
      {
        "kind": figures.PUBLISHED,
        **{
          name: getattr(figure, name)
          for name in ("workload", "mode", "batch_size", "device", "hardware", "quantity", "over")
        },
        "seconds" if not figure.over else "low": figure.value,
        "source": figure.source,
      }
    )
  return written.getvalue()


def _line(found, row):
  line = {name: getattr(row, name) for name in _HEADER if hasattr(row, name)}
  price = found.price(row)
  line |= {"host": row.machine.get("host", ""), "currency": price.currency if price else ""}
  for unit in ("epoch", "run"):
    ok = row.status == results.OK and row.mode == "train"
    line[f"{unit}_seconds"] = _ends(summary.seconds_of(row, unit) if ok else None)
    line[f"{unit}_cost"] = _ends(found.cost(row, unit) if ok else None)
  return line


def _ends(ends):
  return "" if ends is None else _RANGE.join(dict.fromkeys(map(repr, ends)))


def page(
  found: summary.Summary, pictures: Mapping[str, figures.Chart], skipped: Mapping[str, str]
) -> str:
  """Returns the page.

  Args:
    found: the summary.
    pictures: name → Chart.
    skipped: device → why the comparison skipped it.
  """
  # Long texts: the page shows each once, below the tables.
  named = [each.source for each in found.published] + [each.source for each in found.prices]
  sources = list(dict.fromkeys(named))
  measured = _without_empty_columns([_measured(found, row) for row in found.good()])
  return html_page.render(
    "compare/report.html",
    title="Hardware compared",
    choices=[_choice(found, choice) for choice in found.choices()],
    advice=advice.sentences(found),
    pictures=[picture.svg for picture in pictures.values()],
    measured=measured,
    measured_numbers=[
      place
      for place, name in enumerate(measured[0] if measured else ())
      if name not in ("", "device", "accuracy")
    ],
    estimated=[_estimated(found, row) for row in found.good(results.ESTIMATED)],
    costs=[cells for row in found.rows if (cells := _costs(found, row))],
    published=[(*_published(each), sources.index(each.source) + 1) for each in found.published],
    bad=[(summary.title(row), found.label(row), row.status, row.problem) for row in found.bad()],
    skipped=list(skipped.items()),
    prices=[(*_price(each), sources.index(each.source) + 1) for each in found.prices],
    sources=sources,
    machines=_machines(found),
    deadline=found.deadline_seconds,
  )


def text(found: summary.Summary) -> str:
  """Returns the choices as a table for a terminal."""
  rows = [_choice(found, choice) for choice in found.choices()]
  if not rows:
    return "No measurement."
  return formatting.table(("", "fastest", "", "cheapest"), rows, right=(2,))


def _choice(found, choice):
  fastest, time = choice.fastest, ""
  if fastest is not None:
    unit, what = _unit(fastest)
    time = f"{figures.duration(summary.seconds_of(fastest, unit)[0])} {what}"
  return (
    summary.case_title(choice.case),
    found.label(fastest) if fastest else _why_none(found, choice),
    time,
    "; ".join(_cheapest(found, row) for row in choice.cheapest.values()) or "no price",
  )


def _unit(row):
  """Returns the unit of time of a row, and the words for it."""
  if row.mode == "predict":
    return "step", "a call"
  return row.unit, {"step": "a step", "epoch": "an epoch", "run": "in all"}[row.unit]


def _why_none(found, choice):
  rehearsed = any(row.kind == results.MEASURED for row in found.cases()[choice.case])
  return "only rehearsed" if rehearsed else "not measured"


def _cheapest(found, row):
  unit, what = _unit(row)
  return f"{found.label(row)}: {found.cost(row, unit)[0]:.3g} {found.price(row).currency} {what}"


def _estimated(found, row):
  return (
    summary.title(row),
    found.label(row),
    figures.durations(row.low, row.high),
    _time(row, "epoch"),
    _time(row, "run"),
    _memory(row.device_memory_bytes),
    row.source,
  )


def _measured(found, row):
  """Returns title → cell."""
  accuracy = ""
  if row.accuracy is not None:
    accuracy = f"{row.accuracy:.1%} after {row.accuracy_steps:,} steps"
  return {
    "": summary.title(row),
    "device": found.label(row),
    "step or call": figures.duration(row.seconds),
    "quartiles": figures.durations(row.low, row.high),
    "examples/s": formatting.three_digits(row.examples_per_second),
    "epoch": _time(row, "epoch"),
    "run": _time(row, "run"),
    "start*": figures.duration(row.start_seconds),
    "input wait": f"{row.input_wait:.0%}" if row.input_wait is not None else "",
    "memory": _memory(row.memory_bytes),
    "device memory": _memory(row.device_memory_bytes),
    "accuracy": accuracy,
  }


def _without_empty_columns(rows):
  """Returns the titles and then the cells of rows, of the columns with content."""
  titles = [title for title in (rows[0] if rows else ()) if any(row[title] for row in rows)]
  return [titles, *([row[title] for title in titles] for row in rows)] if rows else []


def _time(row, unit):
  ends = summary.seconds_of(row, unit) if row.mode == "train" else None
  return figures.durations(*ends) if ends else ""


def _memory(count):
  return formatting.memory_size(count) if count else ""


def _costs(found, row):
  price = found.price(row)
  if row.status != results.OK or price is None or row.mode != "train" or not row.epoch_examples:
    return None
  both = [_cost(found.cost(row, unit)) for unit in ("epoch", "run")]
  return (summary.title(row), found.label(row), row.kind, *both, price.currency, str(price))


def _cost(ends):
  return "–".join(dict.fromkeys(f"{end:.3g}" for end in ends)) if ends else ""


def _published(figure):
  batch = f"{figure.batch_size:,}" if figure.batch_size else ""
  return figure.workload, figure.mode, batch, figure.hardware, figure.words


def _price(price):
  return price.hardware, f"{price.per_hour:.2f}", price.currency, price.date or "not known"


def _machines(found: summary.Summary) -> list[dict[str, Any]]:
  """Returns the machines of the rows, each one once."""
  machines: list[dict[str, Any]] = []
  for row in found.rows:
    if row.machine and row.machine not in machines:
      machines.append(row.machine)
  return machines
