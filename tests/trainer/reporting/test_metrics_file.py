"""metrics.jsonl: whole lines, of which a run that was cut off counts once."""

import io
import json
import pathlib
import subprocess
import sys
import time
from concurrent import futures

import numpy as np
import pytest

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.io import files
from trainer.reporting import metrics_file


def steps(model_dir, kind=metrics_file.TRAIN):
  return [line["step"] for line in metrics_file.read(model_dir) if line["kind"] == kind]


def losses(model_dir):
  return {
    line["step"]: line["loss"]
    for line in metrics_file.read(model_dir)
    if line["kind"] == metrics_file.TRAIN
  }


def append(model_dir, *at, kind=metrics_file.TRAIN, loss=1.0):
  for step in at:
    metrics_file.append(model_dir, kind, step, {"loss": loss})


def test_a_training_and_its_evaluations(tmp_path):
  estimator = programs.estimator(tmp_path, save_summary_steps=2, **programs.fixed_loops(2))
  estimator.train(programs.train_input, max_steps=5)
  plain = estimator.evaluate(programs.examples(8))
  named = estimator.evaluate(programs.examples(5), name="small")
  lines = metrics_file.read(tmp_path)
  assert [(line["kind"], line["step"]) for line in lines] == [
    ("train", 2),
    ("train", 4),
    ("train", 5),
    ("eval", 5),
    ("eval_small", 5),
  ]
  assert lines[0].keys() == {
    "step",
    "time",
    "kind",
    "loss",
    "learning_rate",
    "steps_per_second",
    "examples_per_second",
    "input_wait",
  }
  for line, result in ((lines[3], plain), (lines[4], named)):
    assert {name: line[name] for name in ("loss", "absolute_error")} == pytest.approx(
      {name: result[name] for name in ("loss", "absolute_error")}
    )
  assert np.all(np.diff([line["time"] for line in lines]) >= 0)


def test_an_evaluation_of_another_folder_is_none_of_this_run(tmp_path):
  programs.estimator(tmp_path / "other").train(programs.train_input, max_steps=1)
  mine = programs.estimator(tmp_path / "mine").train(programs.train_input, max_steps=2)
  mine.evaluate(programs.examples(8), checkpoint_path=str(tmp_path / "other"))
  assert steps(tmp_path / "mine", "eval") == []


def test_a_run_that_goes_on_adds_its_lines(tmp_path):
  for end in (4, 6):
    programs.estimator(tmp_path, save_summary_steps=2, **programs.fixed_loops(2)).train(
      programs.train_input, max_steps=end
    )
  assert steps(tmp_path) == [2, 4, 6]


def test_of_a_step_that_was_done_twice_the_later_counts(tmp_path):
  metrics_file.begin(tmp_path, 0)
  append(tmp_path, 10, 20, 30, loss=1.0)
  metrics_file.begin(tmp_path, 20)
  append(tmp_path, 30, 40, loss=2.0)
  assert losses(tmp_path) == {10: 1.0, 20: 1.0, 30: 2.0, 40: 2.0}


def test_reports_after_a_restarts_checkpoint_do_not_count(tmp_path):
  metrics_file.begin(tmp_path, 0)
  append(tmp_path, 10, 20, 23, 27)
  append(tmp_path, 20, 25, kind="eval")
  metrics_file.begin(tmp_path, 20)
  append(tmp_path, 30)
  assert steps(tmp_path) == [10, 20, 30]
  assert steps(tmp_path, "eval") == [20]


def test_steps_rise_without_a_start_too(tmp_path):
  append(tmp_path, 10, 20, 30)
  append(tmp_path, 25, kind="eval")
  append(tmp_path, 15, 25, loss=2.0)
  assert losses(tmp_path) == {10: 1.0, 15: 2.0, 25: 2.0}
  assert steps(tmp_path, "eval") == [25]


def test_an_evaluation_that_is_done_again_replaces_the_earlier(tmp_path):
  append(tmp_path, 10, kind="eval", loss=1.0)
  append(tmp_path, 10, kind="eval_small", loss=2.0)
  append(tmp_path, 10, kind="eval", loss=3.0)
  assert {line["kind"]: line["loss"] for line in metrics_file.read(tmp_path)} == {
    "eval": 3.0,
    "eval_small": 2.0,
  }


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_line_that_a_killed_process_left_half_is_left_out(cut, tmp_path, caplog):
  append(tmp_path, 10, 20)
  path = tmp_path / metrics_file.NAME
  path.write_bytes(path.read_bytes()[:-cut])
  assert steps(tmp_path) == ([10, 20] if cut == 1 else [10])
  assert ("line 2 is damaged" in caplog.text) == (cut > 1)
  append(tmp_path, 20, 30)
  assert steps(tmp_path) == [10, 20, 30]


@pytest.mark.parametrize(
  "line",
  [
    "[]",
    "3",
    "{}",
    '{"step": "x", "time": 1, "kind": "train"}',
    '{"step": 15, "time": 1, "kind": []}',
    '{"step": 15, "time": 1, "kind": "train", "loss": "low"}',
  ],
)
def test_a_line_of_another_form_is_left_out(line, tmp_path, caplog):
  append(tmp_path, 10)
  with (tmp_path / metrics_file.NAME).open("a") as file:
    file.write(line + "\n")
  append(tmp_path, 20)
  assert steps(tmp_path) == [10, 20]
  assert "line 2 is damaged" in caplog.text


def test_every_line_is_json_and_ends(tmp_path):
  metrics_file.append(
    tmp_path,
    "eval",
    np.int64(3),
    {"nan": float("nan"), "inf": float("-inf"), "third": np.float32(1 / 3), "count": 7},
  )
  text = (tmp_path / metrics_file.NAME).read_text()
  assert text.endswith("}\n")
  line = json.loads(text, parse_constant=pytest.fail)
  assert {name: line[name] for name in ("step", "nan", "inf", "count")} == {
    "step": 3,
    "nan": None,
    "inf": None,
    "count": 7,
  }
  assert np.float32(line["third"]) == np.float32(1 / 3)


@pytest.mark.parametrize(
  "value, written",
  [
    (np.float32(0.01), "0.01"),
    (float(np.float32(0.01)), "0.01"),
    (1 / 3, repr(1 / 3)),
    (1e300, "1e+300"),
  ],
)
def test_numbers_are_whole_and_short(value, written, tmp_path):
  metrics_file.append(tmp_path, "train", 3, {"loss": value})
  assert (tmp_path / metrics_file.NAME).read_text().endswith(f'"loss": {written}}}\n')


def test_metric_of_a_reserved_name_keeps_its_value_renamed(tmp_path):
  metrics_file.append(
    tmp_path, "train", 3, {"time": 5.0, "step": 6.0, "kind": 7.0}, clock=lambda: 1.5
  )
  assert metrics_file.read(tmp_path) == [
    {"step": 3, "time": 1.5, "kind": "train", "time_": 5.0, "step_": 6.0, "kind_": 7.0}
  ]


def test_where_nothing_was_written_there_is_nothing(tmp_path):
  assert metrics_file.read(tmp_path) == []
  assert metrics_file.read(tmp_path / "nowhere") == []


def test_a_folder_that_cannot_be_written(tmp_path):
  with pytest.raises(errors.OutputError, match=r"Cannot write .*metrics.jsonl \(--model_dir\)"):
    append(tmp_path / "nowhere", 1)


def test_reading_needs_no_tensorflow(tmp_path):
  append(tmp_path, 10)
  program = """
import sys
from trainer.reporting import metrics_file
print(len(metrics_file.read(sys.argv[1])), 'tensorflow' in sys.modules)
"""
  root = pathlib.Path(trainer.__file__).parents[1]
  done = subprocess.run(
    [sys.executable, "-c", program, tmp_path], cwd=root, capture_output=True, text=True, check=True
  )
  assert done.stdout == "1 False\n"


def test_each_process_has_its_own_file_on_remote_storage(monkeypatch):
  """ram:// is a file system of TensorFlow's, as gs:// is."""
  folder = "ram://metrics"
  metrics_file.begin(folder, 0, clock=lambda: 1)
  metrics_file.append(folder, "train", 10, {"loss": 1.0}, clock=lambda: 2)
  metrics_file.append(folder, "train", 20, {"loss": 1.0}, clock=lambda: 4)
  monkeypatch.setattr(metrics_file, "_remote", {})  # another process
  metrics_file.append(folder, "eval", 10, {"loss": 2.0}, clock=lambda: 3)
  metrics_file.begin(folder, 10, clock=lambda: 5)
  assert [(line["kind"], line["step"]) for line in metrics_file.read(folder)] == [
    ("train", 10),
    ("eval", 10),
  ]


def test_clock_set_back_changes_no_order_on_remote_storage(monkeypatch):
  folder = "ram://metrics_of_a_clock_set_back"
  monkeypatch.setattr(files.own_path, "__defaults__", (lambda: 1700000000.0,))
  metrics_file.begin(folder, 0, clock=lambda: 1000)
  for step in (10, 20):
    metrics_file.append(folder, "train", step, {"loss": 1.0}, clock=lambda: 1010)
  monkeypatch.setattr(metrics_file, "_remote", {})  # another process, which goes on from step 10
  monkeypatch.setattr(files.own_path, "__defaults__", (lambda: 1600000000.0,))
  metrics_file.begin(folder, 10, clock=lambda: 500)
  metrics_file.append(folder, "train", 20, {"loss": 2.0}, clock=lambda: 400)
  assert losses(folder) == {10: 1.0, 20: 2.0}
  assert [line["time"] for line in metrics_file.read(folder)] == [1010, 1010]
  metrics_file.append(folder, "train", 30, {"loss": 3.0}, clock=lambda: 2000)
  assert metrics_file.read(folder)[-1]["time"] == 2000


def test_how_long_ago_is_not_known_where_the_clock_was_set_back(tmp_path):
  for step, time_ in ((10, 5000), (20, 1000)):
    metrics_file.append(str(tmp_path), "eval", step, {"loss": 1.0}, clock=lambda time_=time_: time_)
  # The last line counts, not the largest time.
  assert metrics_file.seconds_since(str(tmp_path), "eval", lambda: 1100) == 100
  assert metrics_file.seconds_since(str(tmp_path), "eval", lambda: 900) is None
  assert metrics_file.seconds_since(str(tmp_path), "train", lambda: 900) is None


class SlowFile(io.FileIO):
  """A file that takes half of what it is given at a time, and lets other threads run after it."""

  def __init__(self, path, *_, **__):
    super().__init__(path, "a+")

  def write(self, data):
    written = super().write(data[: max(1, len(data) // 2)])
    time.sleep(0)
    return written


def test_lines_that_several_write_at_a_time_are_all_there(tmp_path, monkeypatch, caplog):
  """Threads are to each other what processes are: each opens the file for itself."""
  steps_of = {f"eval_{name}": list(range(first, first + 40)) for first, name in enumerate("abcd")}

  def write(kind):
    append(tmp_path, *steps_of[kind], kind=kind)

  with monkeypatch.context() as patched, futures.ThreadPoolExecutor(len(steps_of)) as threads:
    patched.setattr(metrics_file, "open", SlowFile, raising=False)
    list(threads.map(write, steps_of))
  assert {kind: steps(tmp_path, kind) for kind in steps_of} == steps_of
  assert not caplog.text


def test_an_empty_line_is_no_line_that_was_cut_off(tmp_path, caplog):
  """As there may be where two processes write and the file system has no locks."""
  append(tmp_path, 10)
  with open(tmp_path / metrics_file.NAME, "a") as file:
    file.write("\n")
  append(tmp_path, 20)
  assert steps(tmp_path) == [10, 20]
  assert not caplog.text
