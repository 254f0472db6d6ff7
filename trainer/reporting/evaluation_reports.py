"""Writes and reads the files of evaluation reports.

    for report in evaluation_reports.newest("out/digits"): ...      # as JSON has them

Layout:

    <model_dir>/evaluation_reports/<evaluation>-<step>.json   the figures
    <model_dir>/evaluation_reports/<evaluation>-<step>.npz    label, prediction and probabilities of
                                                              each example, for comparisons
    <model_dir>/evaluation_reports/<evaluation>-<step>.png    the worst examples, where images

<evaluation> is "eval", or "eval_<name>", quoted as in URLs: a name may be a relative path. The JSON
has:

    "evaluation", "step", "kind"     the name or "", the checkpoint's step, "classes" or "numbers"
    "examples", "features"           their number, and the SHA-256 of their features
    "confidence", "resamples"        of the intervals
    "metrics"                        name → {"value", "low", "high"}; null: not defined
    "worst"                          rows of the worst examples, with their columns of a table
    "gaps"                           column → shares of missing and unknown values
    "slices"                         feature → rows of its parts
    "notes"                          sentences on figures that are left out or not defined

A report on a classifier also has "sentence", "classes", "confusions", "calibration" and, for two
classes, "threshold", see `judgement.class_figures`. A report on a regression also has "residuals",
see `judgement.number_figures`.
"""

import io
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer import errors
from trainer.io import json_form, paths
from trainer.reporting import metrics_file

FOLDER = "evaluation_reports"
CLASSES, NUMBERS = "classes", "numbers"  # The kinds of reports.
_FORM = {
  "evaluation": str,
  "step": int,
  "kind": str,
  "examples": int,
  "metrics": dict[str, dict[str, float | None]],
  "notes": list[str],
  ...: object,
}
_FILE = re.compile(r"(eval(?:_.+)?)-(\d+)\.json")


def stem(model_dir: str, evaluation: str, step: int) -> str:
  """Returns the path of a report's files, without their endings."""
  kind = urllib.parse.quote(metrics_file.eval_kind(evaluation), safe="")
  return os.path.join(model_dir, FOLDER, f"{kind}-{step}")


def write(model_dir: str, report: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
  """Writes a report and its arrays, an entry for each example; returns the path of the JSON file.

  Raises:
    OutputError: it cannot write a file.
  """
  from trainer.io import files, storage  # These import TensorFlow.

  path = stem(model_dir, report["evaluation"], report["step"])
  storage.makedirs(os.path.dirname(path))
  packed = io.BytesIO()
  np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
  files.write(f"{path}.npz", packed.getvalue())
  json_form.write(f"{path}.json", report)
  return f"{path}.json"


def read(path: str) -> dict[str, Any] | None:
  """Returns a report; None if there is no such file.

  Raises:
    FileDamagedError: the file is damaged.
  """
  return json_form.read(path, _FORM, "evaluate again")


def newest(model_dir: str) -> list[dict[str, Any]]:
  """Returns the newest report of each evaluation. The evaluation without a name comes first.

  Raises:
    FileDamagedError: a file is damaged.
  """
  steps = steps_of(model_dir)
  found = [read(f"{stem(model_dir, name, max(of))}.json") for name, of in sorted(steps.items())]
  return [report for report in found if report is not None]


def steps_of(model_dir: str) -> dict[str, list[int]]:
  """Returns the name of each evaluation with reports → their steps."""
  folder = paths.path(model_dir) / FOLDER
  steps: dict[str, list[int]] = {}
  for path in folder.iterdir() if folder.is_dir() else ():
    if match := _FILE.fullmatch(path.name):
      name = urllib.parse.unquote(match[1])[len("eval_") :]
      steps.setdefault(name, []).append(int(match[2]))
  return {name: sorted(of) for name, of in steps.items()}


def observed(model_dir: str, evaluation: str, step: int) -> dict[str, np.ndarray]:
  """Returns the arrays of a report, an entry for each example.

  Raises:
    FileDamagedError: the file is missing or damaged.
  """
  path = paths.path(f"{stem(model_dir, evaluation, step)}.npz")
  try:
    with np.load(io.BytesIO(path.read_bytes())) as arrays:
      return dict(arrays)
  except Exception as error:  # zipfile, zlib and numpy raise errors of many kinds.
    raise errors.FileDamagedError(f"Cannot read {path} ({error}): evaluate again.") from error
