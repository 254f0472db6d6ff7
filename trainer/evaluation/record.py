"""The only writer of evaluation results: evaluations.json, TensorBoard and metrics.jsonl.

    record.write("out/digits", "test", 100, {"loss": 0.5}, is_own=True)

A process may die between two of the files. The next process then repeats the evaluation, and the
order of the files shows which files exist:

1. evaluations.json, complete or unchanged. It shows that the evaluation ended.
2. TensorBoard's file, perhaps incomplete.
3. The line of metrics.jsonl. It shows that all files are complete, and the next process repeats
  nothing.

If evaluations.json has the evaluation and metrics.jsonl has no line for it, TensorBoard drops its
points of this step and later steps, and gets them again. TensorBoard therefore shows each point
once, without a need to read its files.
"""

import json
import os

from absl import logging

from trainer import errors
from trainer.io import files
from trainer.reporting import evaluations_file, metrics_file, summaries


def folder(model_dir: str, evaluation: str | None) -> str:
  """Returns the folder of TensorBoard's files of the evaluations of this name."""
  return os.path.join(model_dir, metrics_file.eval_kind(evaluation))


def write(
  model_dir: str, evaluation: str, step: int, scalars: dict[str, float], *, is_own: bool
) -> None:
  """Writes the metrics of an evaluation; in a read-only folder, logs a warning.

  Values that differ from the checkpoint's last evaluation are a new evaluation.

  Args:
    model_dir: the folder of the run.
    evaluation: the evaluation's name, or "".
    step: the checkpoint's global step.
    scalars: the metrics that are numbers.
    is_own: whether the checkpoint belongs to the run. If not, its metrics go to TensorBoard alone,
      not to retention, early stopping and plots.

  Raises:
    OutputError: it cannot write a file.
  """
  try:
    if is_own:
      _write_own(model_dir, evaluation, step, scalars)
    else:
      summaries.Writer(folder(model_dir, evaluation)).scalars(step, scalars)
  except errors.OutputError as error:
    if not files.is_forbidden(error.__cause__):
      raise
    logging.warning("%s This evaluation leaves no record.", error)


def _write_own(model_dir, evaluation, step, scalars):
  kind = metrics_file.eval_kind(evaluation)
  noted = evaluations_file.read(model_dir, evaluation)
  is_cut_off = step in noted and not metrics_file.has_line(model_dir, kind, step, noted[step])
  is_new = _text(scalars) != _text(noted.get(step))
  if not is_new and not is_cut_off:
    return
  if is_new:
    evaluations_file.add(model_dir, evaluation, step, scalars)
  points = {step: scalars}
  writer = summaries.Writer(folder(model_dir, evaluation))
  if is_cut_off:
    writer.drop_from(step)
    steps = {line["step"] for line in metrics_file.read(model_dir) if line["kind"] == kind}
    points |= {later: noted[later] for later in sorted(steps & noted.keys()) if later > step}
  for at, values in points.items():
    writer.scalars(at, values)
  metrics_file.append(model_dir, kind, step, scalars)


def _text(scalars):
  return json.dumps(scalars, sort_keys=True)  # As text, NaN equals NaN.
