"""What an evaluation leaves behind is there once, wherever the process before was killed."""

import json
import math

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import plugin_event_accumulator

from trainer.evaluation import record
from trainer.reporting import evaluations_file, metrics_file, summaries

SCALARS = {"loss": 0.1, "accuracy": 0.75, "nothing": math.nan}


class Killed(BaseException):
  """In the place of SIGKILL."""


def write(folder, scalars=SCALARS, step=20):
  record.write(str(folder), "small", step, scalars, is_own=True)


def shown(folder):
  """(step, tag, value) of each point that TensorBoard shows, by its own reader."""
  reader = plugin_event_accumulator.EventAccumulator(
    str(folder / "eval_small"), size_guidance={plugin_event_accumulator.TENSORS: 0}
  )
  reader.Reload()
  return sorted(
    (event.step, tag, f"{tf.make_ndarray(event.tensor_proto):.4g}")
    for tag in reader.Tags()["tensors"]
    for event in reader.Tensors(tag)
  )


def written(folder):
  """(steps in evaluations.json, lines of metrics.jsonl, (step, tag) that TensorBoard shows)."""
  lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
  noted = sorted(set(evaluations_file.read(str(folder), "small")))
  points = [(step, tag) for step, tag, _ in shown(folder)]
  return noted, [(line["step"], line["kind"]) for line in lines], points


def go_back(folder, step):
  """As TrainingReport does where a training begins at an earlier step."""
  metrics_file.begin(str(folder), step)
  summaries.begin(str(folder), step)


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
    (summaries.Writer, "scalars"),
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
  summaries.Writer(str(tmp_path / "eval_small")).scalars(20, {"loss": 0.1})
  (path,) = (tmp_path / "eval_small").glob("events.*")
  path.write_bytes(path.read_bytes() + b"half of one")
  summaries._open.clear()  # another process
  write(tmp_path)
  assert written(tmp_path) == ONCE


def test_points_of_later_steps_are_shown_as_before(tmp_path):
  write(tmp_path, {"loss": 0.3}, step=30)
  write(tmp_path, {"loss": 0.4}, step=40)
  evaluations_file.add(str(tmp_path), "small", 20, {"loss": 0.2})  # and killed
  write(tmp_path, {"loss": 0.2})
  assert shown(tmp_path) == [(20, "loss", "0.2"), (30, "loss", "0.3"), (40, "loss", "0.4")]


def test_points_of_a_cut_off_training_are_not_shown_again(tmp_path):
  write(tmp_path, {"loss": 0.3}, step=30)
  go_back(tmp_path, 10)
  evaluations_file.add(str(tmp_path), "small", 20, {"loss": 0.2})  # and killed
  write(tmp_path, {"loss": 0.2})
  assert shown(tmp_path) == [(20, "loss", "0.2")]


def test_repeated_evaluation_with_other_values_is_shown_once(tmp_path):
  evaluations_file.add(str(tmp_path), "small", 20, {"loss": 0.1})
  summaries.Writer(str(tmp_path / "eval_small")).scalars(20, {"loss": 0.1})  # and killed
  write(tmp_path, {"loss": 0.2})
  assert shown(tmp_path) == [(20, "loss", "0.2")]
  assert evaluations_file.read(str(tmp_path), "small") == {20: {"loss": 0.2}}


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
  go_back(tmp_path, 0)
  write(tmp_path)
  go_back(tmp_path, 10)  # TensorBoard drops step 20
  assert shown(tmp_path) == []
  write(tmp_path)
  write(tmp_path)
  assert written(tmp_path)[2] == ONCE[2]
