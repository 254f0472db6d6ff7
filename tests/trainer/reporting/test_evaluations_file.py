"""evaluations.json: several processes add to it, and damage is told."""

import errno
import json
from concurrent import futures

import pytest
import tensorflow as tf

from trainer import errors
from trainer.io import file_locks, files
from trainer.reporting import evaluations_file

HOUR = 3600.0


def note(directory, evaluation, steps):
  for step in steps:
    evaluations_file.add(str(directory), evaluation, step, {"loss": float(step)})


def noted(directory, *names):
  return {name: sorted(evaluations_file.read(str(directory), name)) for name in names}


def test_evaluations_that_several_note_at_a_time_are_all_there(tmp_path):
  """Threads are to each other what processes are: each opens the files for itself."""
  names = ["a", "b", "c", "d"]
  with futures.ThreadPoolExecutor(len(names)) as threads:
    for done in [threads.submit(note, tmp_path, name, range(15)) for name in names]:
      done.result()
  assert noted(tmp_path, *names) == {name: list(range(15)) for name in names}
  assert sorted(path.name for path in tmp_path.iterdir()) == [
    "evaluations.json",
    "evaluations.json.lock",
  ]


@pytest.fixture
def no_locks(tmp_path, monkeypatch):
  """A folder whose file system has no locks."""

  def refuse(*_):
    raise OSError(errno.ENOLCK, "No locks available")

  monkeypatch.setattr(file_locks.fcntl, "flock", refuse)
  return str(tmp_path)


@pytest.mark.parametrize("where", ["gs", "local"])
def test_each_process_has_its_own_file_without_file_locks(where, request, monkeypatch):
  """ram:// is a file system of TensorFlow's, as gs:// is."""
  folder = "ram://evaluations" if where == "gs" else request.getfixturevalue("no_locks")
  tf.io.gfile.makedirs(folder)
  old = {"": {"5": {"loss": 5.0}, "10": {"loss": 3.0}}}  # of version 0.1.0
  with tf.io.gfile.GFile(folder + "/evaluations.json", "w") as file:
    file.write(json.dumps(old))
  note(folder, "", [10])
  monkeypatch.setattr(evaluations_file, "_own", {})  # another process
  note(folder, "", [20])
  note(folder, "b", [20])
  assert noted(folder, "", "b") == {"": [5, 10, 20], "b": [20]}
  assert evaluations_file.read_metric(folder, "", "loss") == {5: 5.0, 10: 10.0, 20: 20.0}
  assert len(tf.io.gfile.glob(folder + "/evaluations-*.json")) == 2


def test_later_process_counts_even_if_its_clock_was_set_back(no_locks, monkeypatch):
  for time, loss in ((1700000000.0, 1.0), (1600000000.0, 2.0)):
    monkeypatch.setattr(files.own_path, "__defaults__", (lambda time=time: time,))
    monkeypatch.setattr(evaluations_file, "_own", {})  # another process
    evaluations_file.add(no_locks, "", 10, {"loss": loss})
  assert evaluations_file.read_metric(no_locks, "", "loss") == {10: 2.0}


def test_evaluations_that_cannot_be_noted(tmp_path):
  with pytest.raises(
    errors.OutputError, match=r"Cannot write .*evaluations\.json.*: No such .*\.$"
  ):
    note(tmp_path / "gone", "", [5])


@pytest.mark.parametrize(
  "text",
  [
    "{",
    "[]",
    "3",
    '{"": 3}',
    '{"": {"20": 3}}',
    '{"": {"last": {"loss": 1.0}}}',
    '{"": {"20": {"loss": "low"}}}',
    "[" * 100_000,
  ],
)
def test_damaged_evaluations_are_named_and_stay_as_they_are(text, tmp_path):
  (tmp_path / "evaluations.json").write_text(text)
  with pytest.raises(errors.FileDamagedError, match=r"evaluations\.json is damaged \(.*remove it"):
    evaluations_file.read(str(tmp_path), "")
  with pytest.raises(errors.FileDamagedError, match="is damaged"):
    note(tmp_path, "", [5])
  assert (tmp_path / "evaluations.json").read_text() == text


def test_an_evaluation_with_another_digit_is_damaged(tmp_path):
  path = tmp_path / "evaluations.json"
  evaluations_file.add(str(tmp_path), "", 20, {"accuracy": 0.9722})
  path.write_text(path.read_text().replace("0.9722", "0.9723"))
  with pytest.raises(errors.FileDamagedError, match=r"evaluations\.json is damaged \(.*checksum"):
    evaluations_file.read(str(tmp_path), "")
