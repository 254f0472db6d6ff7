"""Writes a model card into an export: <SavedModel>/MODEL_CARD.md.

For a reader with the export alone, the card says what the model is: its data, sizes, metrics with
their intervals, training, code, and the limits that its author names. octet.json has all of this
too, see `outputs.description`.

After Mitchell et al., "Model Cards for Model Reporting" (2019).
"""

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainer import errors
from trainer.cli import formatting
from trainer.io import storage
from trainer.reporting import environment, evaluation_reports, metrics_file

NAME = "MODEL_CARD.md"

# What only the author knows. The card asks for missing ones.
_OF_AUTHOR = {
  "Intended use": "intended uses, and uses to avoid",
  "Limits": "known failures, and groups of people that the model may treat worse",
  "Origin of the data": "who collected the data, when, and their license",
  "License": "the license of the model",
}
# From environment.json, without the machine and the command: their owner may not want to publish
# them.
_OF_ENVIRONMENT = ("started", "device", "precision", "seed", "commit", "changed")
_VERSIONS = ("octet", "tensorflow", "keras", "python")
_GAPS = ("unknown", "missing", "missing in training")
_MOST_SHAPES = 20  # Inputs and outputs of a signature.


def trained(model_dir: str, step: int) -> dict[str, Any]:
  """Returns octet.json's "training" for a run's own checkpoint.

  Args:
    model_dir: the folder of the run.
    step: the checkpoint's.

  Returns:
    "steps", "seconds" and "examples" as far as metrics.jsonl has them; and the values of
    environment.json.
  """
  found: dict[str, Any] = {"steps": step, **_totals(model_dir, step)}
  try:
    records = environment.read(model_dir)
  except errors.FileDamagedError:
    records = []  # The training has already warned of the damage.
  if records:
    found |= {key: records[0][key] for key in _OF_ENVIRONMENT if key in records[0]}
    found["versions"] = {key: records[0][key] for key in _VERSIONS if key in records[0]}
  return found


def _totals(model_dir, step):
  """Sums the values that each line of metrics.jsonl counts since the line before."""
  sums: dict[str, float] = {}
  newest = 0
  for line in metrics_file.read(model_dir):
    rate = line.get("steps_per_second")
    if line["kind"] != metrics_file.TRAIN or line["step"] > step or not rate:
      continue
    seconds = (line["step"] - newest) / rate
    of_line = {"seconds": seconds, "examples": seconds * (line.get("examples_per_second") or 0)}
    for name, value in of_line.items():
      sums[name] = sums.get(name, 0) + value
    newest = line["step"]
  if newest != step:
    return {}  # Without summaries the sums would be an earlier step's.
  return {name: round(value, 3 if name == "seconds" else None) for name, value in sums.items()}


def report_of(model_dir: str, step: int) -> dict[str, Any] | None:
  """Returns octet.json's "report" for a run's own checkpoint; None without a report.

  Raises:
    FileDamagedError: the report is damaged.
  """
  report = evaluation_reports.read(f"{evaluation_reports.stem(model_dir, '', step)}.json")
  if report is None:
    return None
  kept = ("examples", "features", "confidence", "metrics", "sentence", "notes")
  return {key: report[key] for key in kept if key in report}


def write(saved_model: str, description: Mapping[str, Any]) -> None:
  """Writes the card of a SavedModel before its publication.

  Args:
    saved_model: its folder.
    description: the content of its octet.json.
  """
  storage.write(os.path.join(saved_model, NAME), text(description))


def text(description: Mapping[str, Any]) -> str:
  """Returns the card, in Markdown; see `write`."""
  sections = [
    ("Metrics", _metrics(description)),
    ("Data", _data(description)),
    ("Sizes", _sizes(description)),
    ("Training", _training(description.get("training", {}))),
    ("Inputs and outputs", _signatures(description["signatures"])),
    ("Versions", _versions(description)),
  ]
  lines = [f"# {description.get('model', 'Model')}", "", *_head(description)]
  for heading, content in [*_author_sections(description.get("card", {})), *sections]:
    lines += ["", f"## {heading}", "", *content]
  return "\n".join(lines) + "\n"


def _head(description):
  step = description.get("global_step")
  yield (
    f"Exported on {description['exported'][:10]}"
    + (f" from the checkpoint of step {step:,}" if step is not None else "")
    + ". `assets.extra/octet.json` has all of this for programs."
  )


def _author_sections(texts):
  """Yields (heading, lines) of each text from the author, and of each missing text."""
  given = {heading.lower(): words for heading, words in texts.items()}
  for heading, wanted in _OF_AUTHOR.items():
    yield heading, [given.pop(heading.lower(), f"*Not filled in. Expected: {wanted}.*")]
  yield from ((heading, [words]) for heading, words in texts.items() if heading.lower() in given)


def _metrics(description):
  report = description.get("report")
  if report:
    yield (
      f"On {report['examples']:,} examples of the evaluation set, with intervals of "
      f"{report['confidence']:.0%} (bootstrap over the examples):"
    )
    yield ""
    rows = [
      [name, *(_number(estimate.get(key)) for key in ("value", "low", "high"))]
      for name, estimate in report["metrics"].items()
    ]
    yield from _table(["metric", "value", "from", "to"], rows)
    for sentence in (report.get("sentence"), *report.get("notes", ())):
      if sentence:
        yield from ("", sentence)
    yield ""
  metrics = description.get("metrics")
  if metrics:
    yield "As the evaluation computed them:" if report else "On the evaluation set:"
    yield ""
    yield from _table(["metric", "value"], [[n, _number(value)] for n, value in metrics.items()])
  elif not report:
    yield "The run did not evaluate this checkpoint."
  if metrics and not report:
    yield ""
    yield "Without intervals: `run.evaluation_report = @EvaluationReport()` computes them."


def _data(description):
  training, report = description.get("training", {}), description.get("report") or {}
  if training.get("examples"):
    yield f"- Trained on {training['examples']:,} examples, repetitions included."
  if report:
    yield (
      f"- Evaluated on {report['examples']:,} examples; SHA-256 of their features: "
      f"`{report['features']}`."
    )
  if description.get("class_names"):
    names = description["class_names"]
    shown = ", ".join(names[:_MOST_SHAPES]) + (", …" if len(names) > _MOST_SHAPES else "")
    yield f"- {len(names):,} classes: {shown}."
  gaps = {name: column.get("gaps", {}) for name, column in description.get("raw", {}).items()}
  if rows := [
    [name, *(f"{of.get(key, 0):.2%}" for key in _GAPS)]
    for name, of in gaps.items()
    if any(of.values())
  ]:
    yield "- Columns of the evaluation set with missing values, or values unknown to the training:"
    yield ""
    yield from _table(["column", *_GAPS], rows)
    yield ""
  bindings = description.get("data")
  yield "- The input functions and their settings:" if bindings else "- No gin file named the data."
  if bindings:
    yield from ("", "```", *bindings, "```")


def _sizes(description):
  sizes = description["sizes"]
  yield (
    f"{sizes['parameters']:,} parameters in {sizes['variables']:,} variables, "
    f"{sizes['trainable']:,} of them trainable; {formatting.size(sizes['bytes'])}. The files of "
    f"the export: {formatting.size(sizes['files'])}."
  )


def _training(training):
  if not training:
    yield "The weights come from elsewhere, without a record of their training."
    return
  rows = [["steps", f"{training['steps']:,}"]]
  if "seconds" in training:
    took = datetime.timedelta(seconds=round(training["seconds"]))
    rows.append(["time", f"{took} (h:mm:ss), without evaluations and checkpoints"])
  rows += [[key, str(training[key])] for key in ("device", "precision", "seed") if key in training]
  commit = training.get("commit")
  if commit:
    rows.append(["git commit", commit + ", and changes beside it" * bool(training.get("changed"))])
  else:
    rows.append(["git commit", "not known: the run was in no repository"])
  yield from _table(["", ""], rows)


def _signatures(signatures: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
  name = "serving_default" if "serving_default" in signatures else next(iter(signatures), None)
  if name is None:
    yield "There is no signature."
    return
  rows = [
    [direction[:-1], tensor, told["dtype"], _shape(told["shape"])]
    for direction in ("inputs", "outputs")
    for tensor, told in list(signatures[name][direction].items())[:_MOST_SHAPES]
  ]
  yield from _table([f"`{name}`", "name", "type", "shape"], rows)
  others = [f"`{other}`" for other in signatures if other != name]
  if others:
    yield ""
    yield f"Further signatures: {', '.join(others)}."


def _versions(description):
  then, now = description.get("training", {}).get("versions", {}), description["versions"]
  rows = [[name, then.get(name, ""), now.get(name, "")] for name in {**now, **then}]
  yield from _table(["", "training", "export"], rows)


def _shape(shape: Sequence[int | None] | None) -> str:
  if shape is None:
    return "any"
  return "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"


def _number(value):
  return "not defined" if value is None else formatting.five_digits(value)


def _table(header, rows):
  for row in (header, ["---"] * len(header), *rows):
    cells = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in row)
    yield f"| {' | '.join(cells)} |"
