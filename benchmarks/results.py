"""The results of a benchmark: ratios, as a table, a JSON file and Markdown."""

import dataclasses
import json
import math
import os
import platform

import numpy as np
import rich.console
import rich.table


@dataclasses.dataclass(frozen=True)
class Row:
  """One comparison.

  Attributes:
    question: the benchmark, such as "train".
    case: the workload, such as "CIFAR-10 CNN, batch 128, bfloat16".
    against: the other side.
    ratios: one for each pair of neighbouring slices; their median is the figure. () if a side
      failed; the note says which.
    at_least, at_most: the median's bounds, or None.
    note: further information, such as the speeds and memories of both sides.
  """

  question: str
  case: str
  against: str
  ratios: tuple[float, ...]
  at_least: float | None = None
  at_most: float | None = None
  note: str = ""

  @property
  def median(self):
    return float(np.median(self.ratios)) if self.ratios else math.nan

  @property
  def quartiles(self):
    if not self.ratios:
      return math.nan, math.nan
    low, high = np.percentile(self.ratios, [25, 75])
    return float(low), float(high)

  @property
  def bound(self):
    if self.at_least is not None:
      return f"≥ {self.at_least:g}"
    return "" if self.at_most is None else f"≤ {self.at_most:g}"

  @property
  def holds(self):
    """Returns whether the shown median is within its bounds; False if a side failed."""
    if not self.ratios:
      return False
    shown = round(self.median, 2)
    return (self.at_least is None or shown >= self.at_least) and (
      self.at_most is None or shown <= self.at_most
    )


def _shown(row):
  """Returns the median and quartiles as texts."""
  low, high = row.quartiles
  return (f"{row.median:.2f}", f"{low:.2f} to {high:.2f}") if row.ratios else ("failed", "")


def show(rows):
  """Prints the table."""
  table = rich.table.Table(title="Octet ÷ the other, one run, alternating", title_justify="left")
  for name in ("question", "case", "against"):
    table.add_column(name)
  for name in ("ratio", "quartiles", "must be"):
    table.add_column(name, justify="right", no_wrap=True)
  table.add_column("note", overflow="fold")
  for row in rows:
    table.add_row(
      row.question,
      row.case,
      row.against,
      *_shown(row),
      row.bound + ("" if row.holds else " ✗"),
      row.note,
    )
  rich.console.Console(width=None if os.isatty(1) else 180).print(table)


def markdown(rows):
  """Returns the table in Markdown."""
  lines = [
    "| question | case | against | ratio | quartiles | must be |",
    "|---|---|---|---|---|---|",
  ]
  for row in rows:
    lines.append(
      f"| {' | '.join([row.question, row.case, row.against, *_shown(row), row.bound])} |"
    )
  return "\n".join(lines) + "\n"


def add(rows, folder):
  """Writes results.json and results.md into a folder.

  Keeps rows of the folder that these do not replace.
  """
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, "results.json")
  replaced = {(row.question, row.case, row.against) for row in rows}
  earlier = read(path) if os.path.exists(path) else []
  rows = [row for row in earlier if (row.question, row.case, row.against) not in replaced] + list(
    rows
  )
  written = [
    dict(dataclasses.asdict(row), median=row.median if row.ratios else None) for row in rows
  ]
  with open(path, "w") as file:
    json.dump({"machine": machine(), "rows": written}, file, indent=1)
    file.write("\n")
  with open(os.path.join(folder, "results.md"), "w") as file:
    file.write(markdown(rows))


def read(path):
  """Returns the rows of a results.json."""
  with open(path) as file:
    rows = json.load(file)["rows"]
  names = [field.name for field in dataclasses.fields(Row)]
  return [
    Row(**{name: row[name] for name in names} | {"ratios": tuple(row["ratios"])}) for row in rows
  ]


def machine():
  """Returns a description of the machine."""
  import tensorflow as tf

  return {
    "processor": _processor(),
    "cores": os.cpu_count(),
    "python": platform.python_version(),
    "tensorflow": tf.__version__,
  }


def computes_bfloat16():
  """Returns whether the processor has bfloat16 products; without them it is slower than float32."""
  return not {"amx_bf16", "avx512_bf16"}.isdisjoint(_cpuinfo("flags").split())


def _processor():
  return _cpuinfo("model name") or platform.processor()


def _cpuinfo(key):
  """Returns Linux's entry for the first core; "" if there is none."""
  try:
    with open("/proc/cpuinfo") as file:
      return next((line.partition(":")[2].strip() for line in file if line.startswith(key)), "")
  except OSError:
    return ""
