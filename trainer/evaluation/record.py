"""What is written down of an evaluation of a run's own checkpoint, each thing once.

    record.write("out/digits", "test", 100, {"loss": 0.5}, "out/digits/eval_test")

A process may be killed between two of the files, and the evaluation is then done again. What it
wrote the first time is not written a second time, what it did not is. An evaluation that gives
other values than the last one of its checkpoint is a new one, and written down as such.

The order is important: evaluations.json, which tells whether there was such an evaluation, comes
first; the others are only looked at where it knows of one.
"""

import json

import numpy as np
import tensorflow as tf

from trainer.io import files
from trainer.reporting import evaluations_file, metrics_file, summaries


def write(
  model_dir: str, evaluation: str, step: int, scalars: dict[str, float], summaries_dir: str
) -> None:
  """Writes the metrics of an evaluation for retention and early stopping, TensorBoard, and plots.

  Args:
    model_dir: the folder of the run.
    evaluation: its name, or "".
    step: the checkpoint's global step.
    scalars: the metrics that are numbers.
    summaries_dir: the folder for TensorBoard.

  Raises:
    OutputError: something cannot be written.
  """
  before = evaluations_file.read(model_dir, evaluation).get(step)
  is_new = before is None or _text(before) != _text(scalars)
  if is_new:
    evaluations_file.add(model_dir, evaluation, step, scalars)
  there = set() if is_new else _summaries(summaries_dir, step)
  missing = {tag: value for tag, value in scalars.items() if _point(tag, value) not in there}
  if missing:
    write_summaries(summaries_dir, step, missing)
  kind = metrics_file.eval_kind(evaluation)
  if is_new or not metrics_file.has_line(model_dir, kind, step, scalars):
    metrics_file.append(model_dir, kind, step, scalars)


def write_summaries(summaries_dir: str, step: int, scalars: dict[str, float]) -> None:
  """Writes the metrics of an evaluation for TensorBoard alone.

  Raises:
    OutputError: they cannot be written.
  """
  summaries.Writer(summaries_dir).scalars(step, scalars)


def _text(scalars):
  return json.dumps(scalars, sort_keys=True)  # by which NaN equals NaN


def _point(tag, value):
  return tag, str(np.float32(value))  # in TensorBoard's precision


def _summaries(summaries_dir, step):
  """What TensorBoard shows of a step, as _point gives it, by the files in a folder."""
  # A training that goes on from an earlier step begins its file with that: what is later counts no
  # more.
  summaries.Writer(summaries_dir).open()
  points: set[tuple[str, str]] = set()
  for path in files.matching(summaries_dir, "events.*"):
    try:
      for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        event = tf.compat.v1.Event.FromString(record)
        if event.HasField("session_log") and event.step <= step:
          points.clear()
        elif event.step == step:
          points.update(
            _point(value.tag, tf.make_ndarray(value.tensor))
            for value in event.summary.value
            if value.tensor.dtype == tf.float32.as_datatype_enum
          )
    except tf.errors.DataLossError:
      continue  # the last entry of a process that was killed while it wrote
  return points
