"""Going back to an earlier checkpoint by editing the file `checkpoint`, as people do."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import faults, programs
from trainer import EvalSpec, TrainSpec, errors, evaluate_continuously, train_and_evaluate
from trainer.checkpoints import commit, reader, state_file
from trainer.checkpoints import directory as directory_lib
from trainer.evaluation import pending
from trainer.io import storage
from trainer.outputs import exported_records, exporters
from trainer.reporting import evaluations_file


class Killed(BaseException):
  """In the place of SIGKILL: nothing of the package catches it."""


def edit(folder, newest, *listed):
  """Writes the file as a person does, or as tf.train.update_checkpoint_state does."""
  lines = [f'model_checkpoint_path: "{newest}"']
  lines += [f'all_model_checkpoint_paths: "{name}"' for name in listed]
  storage.write(os.path.join(str(folder), "checkpoint"), "\n".join(lines) + "\n")


def name(step):
  return f"model.ckpt-{step}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """A folder with the checkpoints of the steps 0, 1, 2, 3 and 4."""
  folder = tmp_path_factory.mktemp("trained") / "run"
  programs.estimator(folder, save_checkpoints_steps=1).train(programs.train_input, max_steps=4)
  return folder


@pytest.fixture
def run(trained, tmp_path):
  return pathlib.Path(shutil.copytree(trained, tmp_path / "run"))


def asides(folder):
  """The folders of what was set aside, the oldest first."""
  names = [each.rstrip("/") for each in storage.listdir(str(folder))]
  return [os.path.join(str(folder), each) for each in sorted(names) if each.startswith("set_aside")]


def steps(folder):
  return directory_lib.CheckpointDirectory(str(folder)).steps()


# -------------------------------------------------------------- what is an edit


def first_line_changed(folder):
  path = folder / "checkpoint"
  path.write_text(path.read_text().replace(f'h: "{name(4)}', f'h: "{name(2)}', 1))


def absolute(folder):
  edit(folder, folder / name(2), folder / name(2))


def of_where_it_was(folder):
  edit(folder, f"/nowhere/run/{name(2)}", f"/nowhere/run/{name(2)}")


def by_tensorflow(folder):
  tf.compat.v1.train.update_checkpoint_state(str(folder), str(folder / name(2)))


EDITS = {
  "the whole file": lambda folder: edit(folder, name(2), name(2)),
  "one line": lambda folder: edit(folder, name(2)),
  "all earlier ones": lambda folder: edit(folder, name(2), name(0), name(1), name(2)),
  "the first line": first_line_changed,
  "absolute": absolute,
  "the folder was moved": of_where_it_was,
  "by TensorFlow": by_tensorflow,
}


@pytest.mark.parametrize("kind", EDITS)
def test_all_begin_at_the_step_that_an_edit_names(kind, run, caplog):
  EDITS[kind](run)
  estimator = programs.estimator(run)
  assert estimator.latest_checkpoint() == str(run / name(2))
  assert estimator.checkpoint_steps() == [0, 1, 2]
  assert directory_lib.resolve(str(run)) == str(run / name(2))
  assert "(step 2) the newest checkpoint: Octet ignores the later ones (steps 3, 4)" in caplog.text
  assert caplog.text.count("the newest checkpoint") == 1


def test_an_edit_by_one_step_in_a_folder_with_digests(run):
  """Without its digest it could be a file of 2.15, which goes back there too."""
  edit(run, name(3), *map(name, range(4)))
  assert steps(run) == [0, 1, 2, 3]


def old(folder):
  """A copy of what Octet wrote at step 3, as a kill before the next write leaves it."""
  (folder / "checkpoint").write_text(state_file.compose([name(step) for step in range(4)]))


def of_2_15(folder):
  edit(folder, name(4), *map(name, range(5)))


def of_2_15_elsewhere(folder):
  edit(folder, f"/nowhere/{name(4)}", *(f"/nowhere/{name(step)}" for step in range(5)))


def newest_removed(folder):
  """Another way to go back, where Octet's file is an old one."""
  for path in folder.glob(f"{name(4)}.*"):
    path.unlink()


def newest_of_2_15_removed(folder):
  of_2_15(folder)
  newest_removed(folder)


@pytest.mark.parametrize(
  "kind, newest",
  [
    (old, 4),
    (of_2_15, 4),
    (of_2_15_elsewhere, 4),
    (newest_removed, 3),
    (newest_of_2_15_removed, 3),
    (lambda folder: edit(folder, name(4)), 4),
    (lambda folder: (folder / "checkpoint").unlink(), 4),
    (lambda folder: (folder / "checkpoint").write_text(""), 4),
    (lambda folder: (folder / "checkpoint").write_bytes(b"\xff\x00nonsense"), 4),
  ],
)
def test_what_is_no_edit(kind, newest, run, caplog):
  kind(run)
  assert steps(run)[-1] == newest
  assert "the newest checkpoint" not in caplog.text
  programs.estimator(run).train(programs.train_input, max_steps=6)
  assert not list(run.glob("set_aside*"))


@pytest.mark.parametrize(
  "newest, listed",
  [
    (name(7), [name(7)]),
    (name(7), []),
    (name(7), [name(step) for step in range(5)]),
    ("model.ckpt-2.index", []),
    ("other-2", []),
  ],
)
def test_a_step_that_does_not_exist_is_an_error_of_one_sentence(newest, listed, run):
  edit(run, newest, *listed)
  estimator = programs.estimator(run)
  said = f"names '{newest}', and .* has no such checkpoint: name one of the steps 0, 1, 2, 3, 4,"
  for call in (
    lambda: estimator.train(programs.train_input, max_steps=6),
    lambda: estimator.evaluate(programs.examples(8)),
    lambda: estimator.predict(programs.examples(8)),
    estimator.latest_checkpoint,
  ):
    with pytest.raises(errors.CheckpointNotFoundError, match=said):
      call()
  assert not list(run.glob("set_aside*"))


# ------------------------------------------------------------------- a training


def content(folder):
  """What a training leaves, by the names of its files."""
  return {
    step: reader.read(str(folder / name(step)), ["w", "b", "examples_seen"])
    for step in steps(folder)
  }


def assert_equal(found, expected):
  assert found.keys() == expected.keys()
  for step, values in expected.items():
    for key, value in values.items():
      np.testing.assert_array_equal(found[step][key], value)


def train_on(folder, max_steps=6):
  estimator = programs.estimator(folder, save_checkpoints_steps=1, keep_checkpoint_max=0)
  estimator.train(programs.train_input, max_steps=max_steps)
  return estimator


def test_a_training_begins_there_and_moves_the_later_ones_aside(run, trained, caplog):
  edit(run, name(2), name(2))
  pending.PendingEvaluations(str(run)).add(4, "test")
  (run / f"{name(3)}.pinned").touch()
  begun = []
  programs.estimator(run, save_checkpoints_steps=2).train(
    programs.train_input, max_steps=6, hooks=[lambda step, *_: begun.append(step)]
  )
  assert begun[0] <= 4
  assert steps(run) == [0, 1, 2, 4, 6]
  aside = pathlib.Path(*asides(run))
  assert_equal(content_of(aside, 3, 4), content_of(trained, 3, 4))
  assert {f"{name(4)}.owed-test", f"{name(3)}.pinned"} <= {path.name for path in aside.iterdir()}
  assert pending.PendingEvaluations(str(run)).read() == []
  assert f"Going back to step 2, as {run}/checkpoint says: the later checkpoints and" in caplog.text
  assert state_file.parse((run / "checkpoint").read_text()).is_own
  # The weights are those of a training that was never interrupted.
  whole = train_on(run.parent / "whole")
  assert_equal(content_of(run, 6), content_of(pathlib.Path(whole.model_dir), 6))


def content_of(folder, *of):
  names = ["w", "b", "examples_seen"]
  return {step: reader.read(str(folder / name(step)), names) for step in of}


def test_a_second_time_there_is_a_second_folder(run):
  for count in (1, 2):
    edit(run, name(2), name(2))
    os.utime(run / "checkpoint", (count, count))
    train_on(run, max_steps=4)
    assert (run / f"set_aside-{count}" / f"{name(4)}.index").exists()
  assert steps(run) == [0, 1, 2, 3, 4]


def test_idle_or_refused_training_sets_nothing_aside(run):
  edit(run, name(2), name(2))
  before = (run / "checkpoint").read_text()
  train_on(run, max_steps=2)
  with pytest.raises(errors.SpecError):
    programs.estimator(run).train(lambda params: None, max_steps=9)
  assert (run / "checkpoint").read_text() == before
  assert not list(run.glob("set_aside*"))


def test_edit_during_training_is_reported_and_has_no_effect(run, caplog):
  def hook(step, metrics, estimator):
    if step == 5:
      edit(run, name(2), name(2))
    if step == 6:
      told.append(estimator.latest_step())

  told = []
  estimator = programs.estimator(run, save_checkpoints_steps=1, **programs.fixed_loops(1))
  estimator.train(programs.train_input, max_steps=7, hooks=[hook])
  assert (told, estimator.latest_step()) == ([5], 7)
  assert "during the training; the training writes the file anew" in caplog.text


def test_kill_in_a_folder_of_an_earlier_version_is_no_edit(run):
  """The training makes the file its own before it writes a checkpoint, so that its own kill is no
  edit.
  """
  of_2_15(run)

  def commit_and_die(written, path):
    original(written, path)
    raise Killed

  original = commit.commit
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(commit, "commit", commit_and_die)
    with pytest.raises(Killed):
      train_on(run)
  assert steps(run) == [0, 1, 2, 3, 4, 5]


# ------------------------------------------------------------ evaluations, exports


def evaluate_each(folder, max_steps, log=None, exports=True):
  """Trains with an evaluation and an export of the best at each step; the loss falls."""
  made = trainer.Estimator(
    programs.line,
    str(folder),
    trainer.RunConfig(device="cpu", save_checkpoints_steps=2, keep_checkpoint_max=0),
    train_batch_size=8,
    eval_batch_size=8,
    export_options=trainer.ExportOptions(verify=False, warm_up_batches=()),
  )
  hooks = [lambda step, *_: log.append(step)] if log is not None else []
  best = [exporters.BestExporter()] if exports else []
  spec = EvalSpec(programs.examples(16), hooks=hooks, exporters=best)
  train_and_evaluate(made, TrainSpec(programs.train_input, max_steps=max_steps), spec)
  return made


def record(folder):
  return exported_records.read(str(folder / "export" / "best"))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
  folder = tmp_path_factory.mktemp("evaluated") / "run"
  evaluate_each(folder, 6)
  return folder


def test_records_of_later_steps_and_the_best_are_moved_aside(evaluated, tmp_path):
  run = pathlib.Path(shutil.copytree(evaluated, tmp_path / "run"))
  assert record(run)["metrics"]["global_step"] == 6
  edit(run, name(2), name(2))
  log = []
  evaluate_each(run, 4, log)
  assert log == [4]
  assert sorted(evaluations_file.read(str(run), "")) == [2, 4]
  aside = pathlib.Path(*asides(run))
  assert sorted(evaluations_file.read(str(aside), "")) == [4, 6]
  assert len(list(aside.glob("export/best/*/assets.extra/exported.json"))) == 2
  assert record(run)["metrics"]["global_step"] == 4  # better than that of step 2
  exports = [path.name for path in (run / "export" / "best").iterdir() if path.name.isdigit()]
  assert len(exports) == 4  # of the steps 2, 4, 6, and 4 once more


def test_the_best_before_is_remembered(evaluated, tmp_path):
  """A worse evaluation after the way back is not exported."""
  run = pathlib.Path(shutil.copytree(evaluated, tmp_path / "run"))
  edit(run, name(4), name(4))
  programs.estimator(run).go_back()
  remembered = record(run)
  expected = evaluations_file.read(str(evaluated), "")[4]
  assert remembered["metrics"] == {**expected, "global_step": 4}
  folder = run / "export" / "best" / remembered["folder"]
  described = json.loads((folder / "assets.extra" / "octet.json").read_text())
  assert described["global_step"] == 4


def test_pending_evaluation_of_the_step_precedes_the_training(evaluated, tmp_path):
  run = pathlib.Path(shutil.copytree(evaluated, tmp_path / "run"))
  for step in (2, 4):
    pending.PendingEvaluations(str(run)).add(step, "")
  edit(run, name(2), name(2))
  log = []
  evaluate_each(run, 4, log, exports=False)
  assert log == [2, 4]
  assert pending.PendingEvaluations(str(run)).read() == []
  assert pending.PendingEvaluations(*asides(run)).read() == [(4, "")]


def test_evaluations_beside_a_training_that_goes_back(tmp_path):
  log, now = [], [0.0]
  evaluate_each(tmp_path, 4, exports=False)

  def go_on():
    edit(tmp_path, name(2), name(2))
    yield
    programs.estimator(tmp_path, save_checkpoints_steps=2).train(programs.train_input, max_steps=6)
    yield
    now[0] += 10_000
    yield

  actions = go_on()

  def sleep(seconds):
    now[0] += seconds
    next(actions)

  (tmp_path / "evaluations.json").unlink()
  evaluate_continuously(
    programs.estimator(tmp_path),
    EvalSpec(programs.examples(8), hooks=[lambda step, *_: log.append(step)]),
    clock=lambda: now[0],
    sleep=sleep,
  )
  assert log == [2, 4, 4, 6]


# ------------------------------------------------------------------------ kills


def killed_at(count, monkeypatch):
  """Has the count-th change of a file kill the process, before or after it is done."""
  left = [count]

  def killing(original):
    def change(*args, **kwargs):
      left[0] -= 1
      if left[0] == 0:
        raise Killed
      result = original(*args, **kwargs)
      left[0] -= 1
      if left[0] == 0:
        raise Killed
      return result

    return change

  for function in ("write", "copy", "rename", "remove", "makedirs"):
    monkeypatch.setattr(storage, function, killing(getattr(storage, function)))
  monkeypatch.setattr(os, "replace", killing(os.replace))


@pytest.mark.parametrize("by", ["a disk", pytest.param("a bucket", marks=pytest.mark.long)])
def test_a_kill_between_any_two_writes(by, evaluated, tmp_path):
  """The next process moves the rest to the same folder: nothing is lost, and nothing is mixed."""
  count = 0
  is_done = False
  while not is_done:
    count += 1
    run = tmp_path / f"run-{count}"
    shutil.copytree(evaluated, run)
    where = str(run) if by == "a disk" else f"ram://{run}"
    if by == "a bucket":
      copy_to_bucket(run, where)
    edit(where, name(2), name(2))
    # Without the lock: on a bucket that of a killed process lasts as long as the process, and this
    # process goes on.
    checkpoints = programs.estimator(where)._parts.checkpoints
    with pytest.MonkeyPatch.context() as patch:
      killed_at(count, patch)
      try:
        checkpoints.go_back()
        is_done = True
      except Killed:
        pass
    assert steps(where) == [0, 2]
    programs.estimator(where).go_back()
    assert steps(where) == [0, 2]
    (folder,) = asides(where)
    assert steps(folder) == [4, 6]
    aside = directory_lib.CheckpointDirectory(folder)
    assert all(reader.verify(aside.path(step)) is None for step in (4, 6))
    assert sorted(evaluations_file.read(where, "")) == [2]
    assert sorted(evaluations_file.read(folder, "")) == [4, 6]
    found = exported_records.read(f"{where}/export/best")
    assert found["metrics"]["global_step"] == 2
    assert state_file.parse(storage.read(f"{where}/checkpoint")).is_own
  assert count > 20


def copy_to_bucket(folder, url):
  for path in sorted(folder.rglob("*")):
    if path.is_file():
      target = f"{url}/{path.relative_to(folder)}"
      storage.makedirs(os.path.dirname(target))
      storage.write(target, path.read_bytes())


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_bucket_that_fails_for_a_moment(when, trained, tmp_path, monkeypatch):
  url = f"ram://{tmp_path}/run"
  copy_to_bucket(trained, url)
  edit(url, name(2), name(2))
  failed = set()

  def fault(operation, path):
    is_first = (operation, path) not in failed
    failed.add((operation, path))
    return when if is_first else None

  faults.inject(monkeypatch, faults.Clock(), fault)
  programs.estimator(url).go_back()
  assert (steps(url), *map(steps, asides(url))) == ([0, 1, 2], [3, 4])


def test_idle_training_finishes_a_save_that_was_cut_off(run):
  """A process that was killed between the file and the removals left checkpoints of step 0 to 2."""
  (run / "checkpoint").write_text(state_file.compose([name(3), name(4)]))
  estimator = programs.estimator(run, keep_checkpoint_max=2)
  estimator.train(programs.train_input, max_steps=4)
  assert estimator.checkpoint_steps() == [3, 4]
