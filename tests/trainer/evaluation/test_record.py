"""What an evaluation leaves behind is there once, wherever the process before was killed."""

import json
import math

import pytest
import tensorflow as tf

from trainer.evaluation import record
from trainer.reporting import evaluations_file, metrics_file, summaries

SCALARS = {"loss": 0.1, "accuracy": 0.75, "nothing": math.nan}


class Killed(BaseException):
  """In the place of SIGKILL."""


def write(folder, scalars=SCALARS, step=20):
  record.write(str(folder), "small", step, scalars, str(folder / "eval_small"))


def written(folder):
  """(steps in evaluations.json, lines of metrics.jsonl, (step, tag) in TensorBoard files)."""
  points = [
    (event.step, value.tag)
    for path in sorted((folder / "eval_small").glob("events.*"))
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    for event in [tf.compat.v1.Event.FromString(record)]
    for value in event.summary.value
  ]
  lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
  noted = sorted(set(evaluations_file.read(str(folder), "small")))
  return noted, [(line["step"], line["kind"]) for line in lines], sorted(points)


ONCE = [20], [(20, "eval_small")], [(20, tag) for tag in sorted(SCALARS)]


def test_all_of_it(tmp_path):
  write(tmp_path)
  assert written(tmp_path) == ONCE
  (line,) = metrics_file.read(str(tmp_path))
  assert (line["loss"], line["accuracy"], line["nothing"]) == (0.1, 0.75, None)
  assert evaluations_file.read_metric(str(tmp_path), "small", "accuracy") == {20: 0.75}


@pytest.mark.parametrize(
  "owner, name",
  [
    (evaluations_file, "add"),
    (record, "write_summaries"),
    (metrics_file, "append"),
    (None, None),  # killed after all of it
  ],
)
@pytest.mark.parametrize("is_done", [False, True])
def test_an_evaluation_that_is_done_again_leaves_nothing_twice(
  owner, name, is_done, tmp_path, monkeypatch
):
  def killed(*arguments):
    if is_done:
      original(*arguments)
    raise Killed

  if owner is None:
    write(tmp_path)
  else:
    original = getattr(owner, name)
    with monkeypatch.context() as patch:
      patch.setattr(owner, name, killed)
      with pytest.raises(Killed):
        write(tmp_path)
  write(tmp_path)
  assert written(tmp_path) == ONCE


def test_summaries_of_which_only_some_were_written(tmp_path):
  evaluations_file.add(str(tmp_path), "small", 20, SCALARS)
  record.write_summaries(str(tmp_path / "eval_small"), 20, {"loss": 0.1})
  (path,) = (tmp_path / "eval_small").glob("events.*")
  path.write_bytes(path.read_bytes() + b"half of one")
  write(tmp_path)
  path.write_bytes(path.read_bytes().removesuffix(b"half of one"))
  assert written(tmp_path) == ONCE


def test_other_values_are_another_evaluation(tmp_path):
  write(tmp_path)
  write(tmp_path, {"loss": 0.2})
  noted, lines, points = written(tmp_path)
  assert (noted, lines) == ([20], [(20, "eval_small")] * 2)
  assert points.count((20, "loss")) == 2
  (line,) = metrics_file.read(str(tmp_path))
  assert line["loss"] == 0.2
  assert evaluations_file.read(str(tmp_path), "small") == {20: {"loss": 0.2}}


def test_a_line_of_a_training_that_went_back_does_not_count(tmp_path):
  write(tmp_path)
  metrics_file.begin(str(tmp_path), 10)
  write(tmp_path)
  assert [line["step"] for line in metrics_file.read(str(tmp_path))] == [20]


def test_a_training_that_went_back_has_its_evaluation_shown(tmp_path):
  summaries.begin(str(tmp_path), 0)
  write(tmp_path)
  summaries.begin(str(tmp_path), 10)  # TensorBoard drops step 20
  write(tmp_path)
  write(tmp_path)
  assert [point for point in written(tmp_path)[2] if point[1] == "loss"] == [(20, "loss")] * 2
