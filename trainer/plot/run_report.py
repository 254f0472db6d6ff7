"""A report of one run as a page that needs nothing else: results first, then curves, predictions,
files, and how it came about.

    report.save("report.html", "out/digits", curves.collect(["out/digits"]))

What the run has not written (an export, predictions, an evaluation) has no section. Nothing of it
needs TensorFlow but a gs:// folder.
"""

import base64
import datetime
import html
import json
import math
import re
import statistics

from etils import epath

from trainer import errors, formatting
from trainer.plot import curves, html_page
from trainer.reporting import environment, metrics_file

_STYLE = """
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 1rem 2rem; }
figure { margin: 0; }
.figures svg { width: 100%; height: auto; font-family: system-ui, sans-serif; }
.results { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.results div { background: var(--box); border-radius: .4rem; padding: .5rem .9rem; }
.results b { display: block; font-size: 1.6rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.results span, .soft { color: var(--soft); }
img { max-width: 100%; height: auto; background: #fff; }
summary { cursor: pointer; }
"""

# How many predictions are shown, and of each how many numbers and letters of a value.
_ROWS, _NUMBERS, _LETTERS = 10, 12, 100

# What says how fast a training goes differs from report to report; that of the middle one is shown,
# for others the newest.
_SPEEDS = ("examples_per_second", "input_wait")


def save(path, model_dir, found, smoothing=0.0):
  """Writes the report.

  Args:
    path: the file.
    model_dir: the folder of the run.
    found: what curves.collect returns of it, for the curves; the results are of all metrics.
    smoothing: see curves.smooth.

  Raises:
    OutputError: it cannot be written.
  """
  folder = epath.Path(model_dir)
  lines = metrics_file.read(model_dir)
  name = curves.run_names([model_dir])[0]
  body = "".join(
    [
      f"<h1>{html.escape(name)}</h1>",
      _results(lines),
      _panels(found, smoothing),
      _predictions(folder),
      _exports(folder),
      _checkpoints(folder),
      _environment(folder),
      _config(folder),
    ]
  )
  try:
    epath.Path(path).write_text(html_page.page(f"Run {name}", body, _STYLE))
  except OSError as error:
    raise errors.OutputError(f"Cannot write {path} (--html): {error}") from error


def _results(lines):
  """What the run came to: the newest evaluation of each name, the newest report of the training."""
  newest = {line["kind"]: line for line in lines}
  tiles = []
  for kind in sorted(newest, key=lambda kind: (kind == metrics_file.TRAIN, kind)):
    metrics = newest[kind].keys() - {"step", "time", "kind", "steps_per_second"}
    for metric in sorted(
      metrics, key=lambda name: (name in _SPEEDS, name == "learning_rate", name == "loss", name)
    ):
      value, what = newest[kind][metric], kind
      if metric in _SPEEDS:
        value, what = (
          statistics.median(line[metric] for line in lines if line["kind"] == kind),
          "median",
        )
      tiles.append(
        f"<div><span>{html.escape(curves.label(metric))}, "
        f"{html.escape(what)}</span><b>{_value(value)}</b></div>"
      )
  times = [line["time"] for line in lines]
  when = f"Step {lines[-1]['step']:,}. First report {_time(min(times))}, last report {_time(max(times))} UTC."
  late = [
    f"{kind} is of step {line['step']:,}"
    for kind, line in newest.items()
    if line["step"] != lines[-1]["step"]
  ]
  return f'<p class="soft">{html.escape(" ".join([when, *(["; ".join(late) + "."] if late else [])]))}</p><div class="results">{"".join(tiles)}</div>'


def _panels(found, smoothing):
  panels = "".join(f"<figure>{panel}</figure>" for panel in curves.svgs(found, smoothing).values())
  note = (
    f'<p class="soft">Training curves are smoothed, by {smoothing:g}; faint: as they are.</p>'
    if smoothing
    else ""
  )
  return f'<h2>Curves</h2>{note}<div class="figures">{panels}</div>'


def _predictions(folder):
  """The first predictions of the newest file, and the picture of them where there is one."""
  by_step = {
    int(path.stem.rpartition("-")[2]): path
    for path in folder.glob("predictions-*.jsonl")
    if re.fullmatch(r"predictions-\d+", path.stem)
  }
  if not by_step:
    return ""
  step = max(by_step)
  with by_step[step].open() as file:
    rows = [json.loads(line) for line, _ in zip(file, range(_ROWS), strict=False)]
  keys = list(dict.fromkeys(key for row in rows for key in row))
  table = html_page.table(
    ["", *keys],
    [[index, *(_shown(row.get(key)) for key in keys)] for index, row in enumerate(rows)],
    numbers=(0,),
  )
  picture = by_step[step].with_suffix(".png")
  image = ""
  if picture.exists():
    data = base64.b64encode(picture.read_bytes()).decode()
    image = f'<p><img alt="Examples with their predictions" src="data:image/png;base64,{data}"></p>'
  return f"<h2>Predictions at step {step:,}</h2>{image}{table if rows else ''}"


def _exports(folder):
  models = sorted(
    {
      path.parent
      for depth in ("*", "*/*")
      for path in folder.glob(f"export/{depth}/saved_model.pb")
    }
  )
  rows = [
    [
      str(model.relative_to(folder)),
      formatting.readable(_size(model)),
      _time((model / "saved_model.pb").stat().mtime),
    ]
    for model in models
  ]
  return (
    "<h2>Exports</h2>"
    + html_page.table(["SavedModel", "size", "written (UTC)"], rows, numbers=(1,))
    if rows
    else ""
  )


def _checkpoints(folder):
  paths = {int(path.stem.rpartition("-")[2]): path for path in folder.glob("model.ckpt-*.index")}
  rows = []
  for step, index in sorted(paths.items()):
    files = [
      file.stat() for pattern in (".index", ".data-*") for file in folder.glob(index.stem + pattern)
    ]
    pinned = "pinned" if (folder / f"{index.stem}.pinned").exists() else ""
    rows.append(
      [
        index.stem,
        f"{step:,}",
        formatting.readable(sum(file.length for file in files)),
        _time(max(file.mtime for file in files)),
        pinned,
      ]
    )
  return (
    "<h2>Checkpoints</h2>"
    + html_page.table(["", "step", "size", "written (UTC)", ""], rows, numbers=(1, 2))
    if rows
    else ""
  )


def _environment(folder):
  path = folder / environment.NAME
  if not path.exists():
    return ""
  found = json.loads(path.read_text())
  trainings = [found, *reversed(found.pop("earlier", []))]
  tables = [html_page.table(None, list(training.items())) for training in trainings]
  earlier = (
    f"<details><summary>Earlier starts: {len(tables) - 1}</summary>{''.join(tables[1:])}</details>"
    if tables[1:]
    else ""
  )
  return f"<h2>Environment</h2>{tables[0]}{earlier}"


def _config(folder):
  parts = []
  for name, what in (
    ("config.gin", "as given"),
    ("operative_config.gin", "what took effect, defaults included"),
  ):
    path = folder / name
    if path.exists():
      parts.append(
        f"<details><summary><code>{name}</code>, "
        f"{what}</summary><pre>{html.escape(path.read_text())}</pre></details>"
      )
  return "<h2>Configuration</h2>" + "".join(parts) if parts else ""


def _shown(value):
  """A prediction's value, short enough for a table."""
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
  return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.5g}"


def _size(folder):
  return sum(_size(path) if path.is_dir() else path.stat().length for path in folder.iterdir())


def _time(seconds):
  return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S}"
