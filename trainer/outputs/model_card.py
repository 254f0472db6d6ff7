"""Writes a model card into an export: <SavedModel>/MODEL_CARD.md.

For a reader with the export alone, the card says what the model is: its data, sizes, metrics with
their intervals, training, code, and the limits that its author names. octet.json has all of this
too, see `outputs.description`.

After Mitchell et al., "Model Cards for Model Reporting" (2019).
"""

import datetime
import os
from collections.abc import Mapping
from typing import Any

import jinja2

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
  signatures = description["signatures"]
  default = "serving_default"
  name = default if default in signatures else next(iter(signatures), None)
  tensors = [
    (direction[:-1], tensor, told)
    for direction in ("inputs", "outputs")
    for tensor, told in list(signatures.get(name, {}).get(direction, {}).items())[:_MOST_SHAPES]
  ]
  shares = {
    column: [f"{told.get('gaps', {}).get(gap, 0):.2%}" for gap in _GAPS]
    for column, told in description.get("raw", {}).items()
    if any(told.get("gaps", {}).values())
  }
  training = description.get("training", {})
  return _template().render(
    about=description,
    of_author=_author_sections(description.get("card", {})),
    report=description.get("report"),
    training=training,
    sizes=description["sizes"],
    gaps=shares,
    signature=name,
    tensors=tensors,
    others=[other for other in signatures if other != name],
    versions={**description["versions"], **training.get("versions", {})},
    most=_MOST_SHAPES,
    row=_row,
    number=lambda value: "not defined" if value is None else formatting.five_digits(value),
    shape=lambda shape: "any" if shape is None else f"[{', '.join(map(_size, shape))}]",
    size=formatting.size,
    time=lambda seconds: datetime.timedelta(seconds=round(seconds)),
  )


def _template():
  folder = os.path.join(os.path.dirname(__file__), "templates")
  of_cards = jinja2.Environment(
    loader=jinja2.FileSystemLoader(folder),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
  )
  return of_cards.get_template("model_card.md.jinja")


def _author_sections(texts):
  """Yields (heading, text) of each text from the author, and of each missing text."""
  given = {heading.lower(): words for heading, words in texts.items()}
  for heading, wanted in _OF_AUTHOR.items():
    yield heading, given.pop(heading.lower(), f"*Not filled in. Expected: {wanted}.*")
  yield from ((heading, words) for heading, words in texts.items() if heading.lower() in given)


def _row(*cells):
  texts = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
  return f"| {' | '.join(texts)} |"


def _size(size):
  return "any" if size is None else str(size)
