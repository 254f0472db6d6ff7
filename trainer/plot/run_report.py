"""Makes the report of a run, an HTML page.

The page shows the results first, then curves, predictions, environment and configuration.

    text = run_report.page("out/digits", curves.collect(["out/digits"]))

If the run has no predictions or no evaluation, the page has no section for that. It needs
TensorFlow only for a gs:// folder.
"""

import base64
import datetime
import fnmatch
import itertools
import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.cli import formatting
from trainer.io import json_form, paths
from trainer.plot import curves, evaluation_charts, html_page
from trainer.reporting import environment, evaluation_reports, metrics_file

# The number of predictions on the page, and of numbers and letters in each of their values.
_ROWS, _NUMBERS, _LETTERS = 10, 12, 100

# Speeds vary from report to report, so the page shows their median. For other metrics it shows the
# newest value.
_SPEEDS = ("examples_per_second", "input_wait")

_YES_OR_NO = ("changed",)  # 0 or 1 in environment.json.


def page(model_dir: str, found: Mapping[str, Sequence[curves.Curve]]) -> str:
  """Returns the text of the report.

  Args:
    model_dir: the folder of the run.
    found: the curves to draw; `curves.collect` returns them. The results show all metrics.
  """
  folder = paths.path(model_dir)
  lines = metrics_file.read(model_dir)
  name = curves.run_names([model_dir])[0]
  return html_page.render(
    "plot/run.html",
    title=f"Run {name}",
    name=name,
    when=_when(lines),
    results=[dict(label=label, value=value) for label, value in results(lines).items()],
    panels=list(curves.svgs(found).values()),
    reports=[_evaluation(model_dir, each) for each in evaluation_reports.newest(model_dir)],
    predictions=_predictions(folder),
    environments=[_surroundings(record) for record in environment.read(str(folder))],
    configs=_configs(folder),
  )


def _newest(lines):
  """Returns kind → its newest line."""
  return {line["kind"]: line for line in lines}


def _when(lines):
  """Returns sentences about the step and the times of the reports."""
  times = [line["time"] for line in lines]
  last = lines[-1]["step"]
  sentences = [
    f"Step {last:,}. First report {_time(min(times))}, last report {_time(max(times))} UTC."
  ]
  late = [
    f"{kind} is of step {line['step']:,}"
    for kind, line in _newest(lines).items()
    if line["step"] != last
  ]
  if late:
    sentences.append("; ".join(late) + ".")
  return " ".join(sentences)


def results(lines: Sequence[Mapping[str, Any]]) -> dict[str, str]:
  """Returns the newest value of each metric as text, evaluations first.

  Returns:
    "accuracy, eval" and the like → the value. For a speed it is the median.
  """
  found = {}
  newest = _newest(lines)
  for kind in sorted(newest, key=lambda kind: (kind == metrics_file.TRAIN, kind)):
    metrics = newest[kind].keys() - {"step", "time", "kind", "steps_per_second"}
    for metric in sorted(metrics, key=_place):
      value, what = newest[kind][metric], kind
      if metric in _SPEEDS:
        value = statistics.median(line[metric] for line in lines if line["kind"] == kind)
        what = "median"
      text = f"{value:.1%}" if metric == "input_wait" else _value(value)
      found[f"{curves.label(metric)}, {what}"] = text
  return found


def _place(metric):
  """Sort key of a metric: the model's own, then the loss, the learning rate, speeds."""
  return metric in _SPEEDS, metric == "learning_rate", metric == "loss", metric


def _predictions(folder):
  """Returns the first predictions of the newest file, and its picture; None without a file."""
  by_step = {
    int(path.stem.rpartition("-")[2]): path
    for path in _matching(folder, "predictions-*.jsonl")
    if re.fullmatch(r"predictions-\d+", path.stem)
  }
  if not by_step:
    return None
  step = max(by_step)
  with by_step[step].open() as file:
    lines = itertools.islice(file, _ROWS)
    first = list(json_form.parse_lines(lines, dict, str(by_step[step]), "remove it"))
  rows = [_classified(row) for row in first]
  keys = list(dict.fromkeys(key for row in rows for key in row))
  picture = by_step[step].with_suffix(".png")
  return dict(
    step=step,
    picture=base64.b64encode(picture.read_bytes()).decode() if picture.exists() else "",
    header=["", *keys],
    rows=[[index, *(_shown(row.get(key)) for key in keys)] for index, row in enumerate(rows)],
    numbers=[0, *(place for place, key in enumerate(keys, 1) if key == "probability")],
  )


def _classified(row):
  """Returns a classifier's prediction with the probability of its class in place of all."""
  shares, predicted = row.get("probabilities"), row.get("class")
  if not (isinstance(predicted, int) and isinstance(shares, list) and 0 <= predicted < len(shares)):
    return row
  if not isinstance(shares[predicted], float | int):
    return row
  others = {key: value for key, value in row.items() if key not in ("class", "probabilities")}
  named = {"predicted": others.pop("class_name", str(predicted))}
  return {**named, "probability": f"{shares[predicted]:.1%}", **others}


def _evaluation(model_dir, report):
  """Returns the page's part about an evaluation report."""
  step, classes = report["step"], report.get("classes", [])
  picture = paths.path(f"{evaluation_reports.stem(model_dir, report['evaluation'], step)}.png")
  worst = report.get("worst", [])
  return dict(
    title=f"Evaluation {report['evaluation']}".strip() + f" at step {step:,}",
    examples=report["examples"],
    confidence=report["confidence"],
    metrics=[[name, *_estimate(each)] for name, each in report["metrics"].items()],
    sentence=report.get("sentence", ""),
    charts=evaluation_charts.svgs(report),
    classes=[
      [
        each["name"],
        f"{each['examples']:,}",
        f"{each['predicted']:,}",
        *(" ".join(_estimate(each[figure])) for figure in ("precision", "recall", "f1")),
      ]
      for each in classes
    ],
    slices={
      feature: [
        [part["value"], f"{part['examples']:,}", " ".join(_estimate(part[_metric_of(part)]))]
        for part in parts
      ]
      for feature, parts in report.get("slices", {}).items()
    },
    sliced_by="accuracy" if report["kind"] == "classes" else "mean absolute error",
    worst=[[_shown(value) for value in row.values()] for row in worst],
    worst_header=list(worst[0]) if worst else [],
    picture=base64.b64encode(picture.read_bytes()).decode() if picture.exists() else "",
    notes=report["notes"],
  )


def _metric_of(part):
  return next(name for name in part if name not in ("value", "examples"))


def _estimate(estimate):
  """Returns a figure and its interval, as two texts."""
  value, low, high = (estimate[key] for key in ("value", "low", "high"))
  if value is None:
    return ["–", ""]
  return [f"{value:.4g}", f"[{low:.4g}, {high:.4g}]" if low is not None else ""]


def _surroundings(record):
  """Returns the page's part about a record of environment.json: a table, and long texts."""
  packages = record.get("packages", {})
  long = {
    "Installed packages": "\n".join(f"{name} {version}" for name, version in packages.items()),
    "Changes beside the commit": record.get("diff", ""),
    "Code that git does not track": record.get("untracked", ""),
  }
  return dict(
    rows=[
      (key, ("no", "yes")[value] if key in _YES_OR_NO else value)
      for key, value in record.items()
      if key not in environment.LONG
    ],
    long={title: text for title, text in long.items() if text},
  )


def _matching(folder, pattern):
  """Returns the paths in a folder that match a pattern; the folder's own name is no pattern."""
  if not folder.is_dir():
    return []
  return [path for path in folder.iterdir() if fnmatch.fnmatchcase(path.name, pattern)]


def _configs(folder):
  named = {"config.gin": "as given", "operative_config.gin": "what took effect, defaults included"}
  return [
    dict(name=name, what=what, text=(folder / name).read_text())
    for name, what in named.items()
    if (folder / name).exists()
  ]


def _shown(value):
  """Returns a prediction's value as text, short enough for a table."""
  if isinstance(value, list):
    flat, shape = value, [len(value)]
    while flat and all(isinstance(item, list) for item in flat):
      flat = [inner for item in flat for inner in item]
      shape.append(len(flat) // math.prod(shape))
    texts = [
      f"{round(item, 3):g}" if isinstance(item, float) and abs(item) < 1000 else _shown(item)
      for item in flat[:_NUMBERS]
    ]
    return ", ".join(texts) + (f", … ({'×'.join(map(str, shape))})" if len(flat) > _NUMBERS else "")
  if isinstance(value, float):
    return f"{value:.5g}"
  text = (
    ""
    if value is None
    else value
    if isinstance(value, str)
    else json.dumps(value, ensure_ascii=False)
  )
  return text if len(text) <= _LETTERS else text[:_LETTERS] + "…"


def _value(value):
  if value is None:
    return "not a number"
  if abs(value) >= 10_000:
    return f"{value:,.0f}"
  return f"{float(formatting.five_digits(value)):,.5g}"


def _time(seconds):
  return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S}"
