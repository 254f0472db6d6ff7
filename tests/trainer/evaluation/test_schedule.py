"""A pending evaluation of a killed process is done by the next one, before the training goes on.

Kills at the points of which tests/slow/kill_evaluations.py has all are long tests.
"""

import itertools
import shutil

import pytest

import trainer
from tests import long
from tests.trainer import programs
from trainer import EvalSpec, TrainSpec, errors, evaluate_continuously, train_and_evaluate
from trainer.checkpoints import directory
from trainer.evaluation import pending, train_evaluate
from trainer.hooks.early_stopping import EarlyStopping
from trainer.outputs import exported_records, exporters
from trainer.reporting import evaluations_file, metrics_file


class Killed(BaseException):
  """In the place of SIGKILL: nothing of the package catches it."""


class KilledAt:
  """A hook of evaluations, or an exporter, during which the process is killed: `count` times left
  to come.
  """

  name = "killed"

  def __init__(self, log, name, count=None):
    self._log = log
    self._name = name
    self._left = count

  def _count(self):
    if self._left is not None:
      self._left -= 1
      if not self._left:
        raise Killed

  def __call__(self, step, metrics, estimator):
    self._log.append((self._name, step))
    self._count()

  def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
    self._log.append(("export", eval_result["global_step"]))
    self._count()


def pending_in(folder):
  return pending.PendingEvaluations(str(folder)).read()


def run(folder, *specs, hooks=(), max_steps=30, every=10, **config):
  estimator = trainer.Estimator(
    programs.line,
    str(folder),
    trainer.RunConfig(device="cpu", save_checkpoints_steps=every, **config),
    train_batch_size=8,
    eval_batch_size=8,
    # The check of each export in another process takes longer than all the rest.
    export_options=trainer.ExportOptions(verify=False, warm_up_batches=()),
  )
  results = train_and_evaluate(
    estimator, TrainSpec(programs.train_input, max_steps=max_steps, hooks=hooks), *specs
  )
  return estimator, results


def spec(log, name=None, kill=None, **settings):
  hooks = [KilledAt(log, name, kill)]
  return EvalSpec(programs.examples(11), name=name, hooks=hooks, **settings)


def test_an_evaluation_that_was_cut_off_is_done_first_and_once(tmp_path):
  log = []
  with pytest.raises(Killed):
    run(tmp_path, spec(log), spec(log, "b", kill=2))
  assert log == [(None, 10), ("b", 10), (None, 20), ("b", 20)]
  assert pending_in(tmp_path) == [(20, "b")]
  log.clear()
  run(tmp_path, spec(log), spec(log, "b"))
  assert log == [("b", 20), (None, 30), ("b", 30)]
  assert pending_in(tmp_path) == []
  kinds = [(line["step"], line["kind"]) for line in metrics_file.read(str(tmp_path))]
  lines = (tmp_path / metrics_file.NAME).read_text()
  for step in (10, 20, 30):
    for kind in ("eval", "eval_b"):
      assert (step, kind) in kinds
      assert lines.count(f'"step": {step}, ') == lines.count(f'"step": {step}, "time"')
  assert sum('"kind": "eval' in line for line in lines.splitlines()) == 6


@pytest.mark.long
def test_a_kill_right_after_the_checkpoint(tmp_path, monkeypatch):
  """Before it was ever looked at."""
  steps, log = directory.CheckpointDirectory.steps, []
  training = programs.estimator(tmp_path, save_checkpoints_steps=10)

  def killed():
    if 20 in steps(directory.CheckpointDirectory(str(tmp_path))):
      raise Killed
    return steps(directory.CheckpointDirectory(str(tmp_path)))

  monkeypatch.setattr(training, "checkpoint_steps", killed)
  with pytest.raises(Killed):
    train_and_evaluate(training, TrainSpec(programs.train_input, max_steps=30), spec(log))
  assert log == [(None, 10)]
  assert pending_in(tmp_path) == [(20, "")]
  run(tmp_path, spec(log))
  assert log == [(None, 10), (None, 20), (None, 30)]


@pytest.mark.long
def test_kill_before_the_checkpoint_exists_leaves_no_evaluation(tmp_path):
  log = []
  run(tmp_path, spec(log), max_steps=10)
  pending.PendingEvaluations(str(tmp_path)).add(20, "")
  run(tmp_path, spec(log))
  assert log == [(None, 10), (None, 20), (None, 30)]
  assert pending_in(tmp_path) == []


@pytest.mark.long
def test_a_checkpoint_that_was_written_but_not_in_its_place(tmp_path):
  log = []
  with pytest.raises(Killed):
    run(tmp_path, spec(log, kill=2))
  aside = tmp_path / ".writing-model.ckpt-20"
  aside.mkdir()
  for path in list(tmp_path.glob("model.ckpt-20.[di]*")):
    path.rename(aside / path.name)
  run(tmp_path, spec(log))
  assert log == [(None, 10), (None, 20), (None, 20), (None, 30)]


def test_with_its_own_checkpoint_though_there_are_newer_ones(tmp_path):
  log = []
  with pytest.raises(Killed):
    run(tmp_path, spec(log, kill=1))
  # A training without evaluations, which keeps one checkpoint, goes on in between.
  programs.estimator(tmp_path, save_checkpoints_steps=10, keep_checkpoint_max=1).train(
    programs.train_input, max_steps=30
  )
  assert directory.CheckpointDirectory(str(tmp_path)).steps() == [10, 30]
  estimator, results = run(tmp_path, spec(log), max_steps=40)
  assert log == [(None, 10), (None, 10), (None, 40)]
  alone, _ = run(tmp_path / "alone", spec([]), max_steps=40)
  assert (estimator.get_variable_value("w") == alone.get_variable_value("w")).all()
  noted = evaluations_file.read(str(tmp_path), "")
  undisturbed = evaluations_file.read(str(tmp_path / "alone"), "")
  assert noted == {step: undisturbed[step] for step in (10, 40)}
  assert results[None]["global_step"] == 40


def stopping():
  # The loss falls by less than 1,000 between evaluations: none counts as better than the first.
  return EarlyStopping(patience=2, min_delta=1000.0)


@pytest.mark.long
@pytest.mark.parametrize("kill", [1, 2, 3])
def test_killed_run_stops_and_exports_like_an_undisturbed_run(kill, tmp_path):
  def wanted():
    return [exporters.BestExporter(), exporters.FinalExporter()]

  estimator, results = run(
    tmp_path / "alone", spec([], exporters=wanted()), hooks=[stopping()], max_steps=100
  )
  assert estimator.latest_step() == 30
  with pytest.raises(Killed):
    run(
      tmp_path / "killed",
      spec([], kill=kill, exporters=wanted()),
      hooks=[stopping()],
      max_steps=100,
    )
  again, found = run(
    tmp_path / "killed", spec([], exporters=wanted()), hooks=[stopping()], max_steps=100
  )
  assert again.latest_step() == 30
  assert found == results
  for name in ("best", "final"):
    alone, killed = (
      exported_records.read(str(tmp_path / run_ / "export" / name))["metrics"]
      for run_ in ("alone", "killed")
    )
    assert killed == alone
    assert [
      len(list((tmp_path / run_ / "export" / name).glob("[0-9]*"))) for run_ in ("alone", "killed")
    ] == [{"best": 3, "final": 1}[name]] * 2


class StopsAt:
  """A hook of a user's own, which keeps nothing from process to process."""

  def __init__(self, step, log=None):
    self._step = step
    self._log = log
    self._has_begun = False

  def begin(self, estimator):
    self._has_begun = True

  def evaluated(self, step, name, metrics, estimator):
    assert self._has_begun
    if self._log is not None:
      self._log.append((name, step))
    return step == self._step

  def __call__(self, step, metrics, estimator):
    return False


def test_a_hook_of_the_users_stops_where_it_would_have(tmp_path):
  heard = []
  with pytest.raises(Killed):
    run(tmp_path, spec([], kill=2), hooks=[StopsAt(20, heard)])
  estimator, _ = run(tmp_path, spec([]), hooks=[StopsAt(20, heard)])
  assert estimator.latest_step() == 20
  assert heard == [("", 10), ("", 20)]


@pytest.mark.long
def test_a_kill_after_a_hook_has_said_stop(tmp_path):
  """In the last export, say: the next process must not train on."""
  log = []
  specs = [spec([], exporters=[KilledAt(log, "", 3)])]  # twice on the way, then at the end
  with pytest.raises(Killed):
    run(tmp_path, *specs, hooks=[StopsAt(20)])
  assert log == [("export", 10), ("export", 20), ("export", 20)]
  assert pending_in(tmp_path) == [(20, "")]
  estimator, _ = run(tmp_path, spec([]), hooks=[StopsAt(20)])
  assert estimator.latest_step() == 20
  assert pending_in(tmp_path) == []


@pytest.mark.long
def test_a_kill_in_an_exporter_is_made_good(tmp_path):
  log = []
  with pytest.raises(Killed):
    run(tmp_path, spec([], exporters=[KilledAt(log, "", 2)]))
  run(tmp_path, spec([], exporters=[KilledAt(log, "")]))
  assert log == [("export", step) for step in (10, 20, 20, 30, 30)]


@pytest.mark.long
def test_what_is_pending_where_the_training_is_complete(tmp_path):
  log = []
  with pytest.raises(Killed):
    run(tmp_path, spec(log), spec(log, "b", kill=3))
  log.clear()
  _, results = run(tmp_path, spec(log), spec(log, "b"))
  assert log == [("b", 30), (None, 30)]
  assert set(results) == {None, "b"}
  assert pending_in(tmp_path) == []


def test_pending_evaluation_of_damaged_checkpoint_is_skipped(tmp_path, caplog):
  log = []
  with pytest.raises(Killed):
    run(tmp_path, spec(log, kill=2))
  data = tmp_path / "model.ckpt-20.data-00000-of-00001"
  data.write_bytes(data.read_bytes()[:4])
  run(tmp_path, spec(log))
  assert log == [(None, 10), (None, 20), (None, 20), (None, 30)]  # trained anew from 10
  assert "Not evaluated" in caplog.text
  assert pending_in(tmp_path) == []


def test_an_evaluation_that_there_is_none_of_any_more_is_named(tmp_path, caplog):
  programs.estimator(tmp_path).train(programs.train_input, max_steps=10)
  pending.PendingEvaluations(str(tmp_path)).add(10, "old")
  run(tmp_path, spec([], "new"), max_steps=10)
  assert "The pending evaluation 'old' of step 10 has no EvalSpec of its name" in caplog.text
  assert pending_in(tmp_path) == []


def test_checkpoint_saved_for_preemption_needs_no_evaluation(tmp_path, monkeypatch):
  """An undisturbed training would have no such checkpoint."""
  log = []

  def preempted(step, metrics, estimator):
    if step == 15:
      estimator.save_checkpoint()
      estimator.wait_for_checkpoint()
      raise Killed

  with pytest.raises(Killed):
    run(tmp_path, spec(log), hooks=[preempted], **programs.fixed_loops(5))
  assert pending_in(tmp_path) == []
  run(tmp_path, spec(log))
  assert log == [(None, 10), (None, 20), (None, 30)]


@pytest.fixture(scope="module")
def five_steps(tmp_path_factory):
  """The folder of a training, to copy."""
  folder = tmp_path_factory.mktemp("five_steps")
  programs.estimator(folder).train(programs.train_input, max_steps=5)
  return folder


@pytest.mark.parametrize(
  "ago, steps",
  # The last one: the clock was set back by 30 days since.
  [(50.0, [20]), (10000.0, [10, 20]), (-30 * 86400.0, [10, 20])],
)
def test_the_throttle_counts_from_an_earlier_process(ago, steps, five_steps, tmp_path, monkeypatch):
  shutil.copytree(five_steps, tmp_path, dirs_exist_ok=True)
  append = metrics_file.append
  append(str(tmp_path), "eval", 5, {"loss": 1.0}, clock=lambda: 100000.0 - ago)
  monkeypatch.setattr(metrics_file.time, "time", lambda: 100000.0)
  monkeypatch.setattr(metrics_file.seconds_since, "__defaults__", (lambda: 100000.0,))
  log = []
  run(tmp_path, spec(log, throttle_secs=1000), max_steps=20)
  assert [step for _, step in log] == steps


def test_an_evaluator_exports_what_was_left_pending(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, max_steps=10)

  def evaluate(*wanted):
    evaluate_continuously(
      programs.estimator(tmp_path),
      EvalSpec(programs.examples(11), exporters=wanted),
      max_steps=10,
      timeout_secs=0.0,
    )

  log = []
  with pytest.raises(Killed):
    evaluate(KilledAt(log, "", 1))
  assert pending_in(tmp_path) == [(10, "")]
  evaluate(KilledAt(log, ""))
  assert log == [("export", 10)] * 3  # cut off; again; and that it was the last
  assert pending_in(tmp_path) == []


def names_twice(*names):
  return [
    EvalSpec(programs.examples(1), name=name, exporters=[exporters.BestExporter(name=folder)])
    for name, folder in names
  ]


@pytest.mark.parametrize(
  "specs, message",
  [
    (
      [
        EvalSpec(
          programs.examples(1),
          exporters=[exporters.BestExporter("absolute_error"), exporters.BestExporter("loss")],
        )
      ],
      r"BestExporter\('best'\) of the EvalSpec without a name and BestExporter\('best'\) of the "
      r"EvalSpec without a name both export to <model_dir>/export/best: .*BestExporter\.name",
    ),
    (
      names_twice(("a", "x"), ("b", "x/")),
      r"BestExporter\('x'\) of the EvalSpec 'a' and BestExporter\('x/'\) of the EvalSpec 'b'",
    ),
    (
      [
        EvalSpec(
          programs.examples(1),
          exporters=[exporters.LatestExporter("one"), exporters.FinalExporter("one")],
        )
      ],
      r"LatestExporter\('one'\) .* and FinalExporter\('one'\)",
    ),
  ],
)
def test_two_exporters_of_one_folder_are_refused(specs, message, tmp_path):
  estimator = programs.estimator(tmp_path / "run")
  with pytest.raises(errors.SettingError, match=message):
    train_and_evaluate(estimator, TrainSpec(programs.train_input, max_steps=1), *specs)
  with pytest.raises(errors.SettingError, match=message):
    evaluate_continuously(estimator, *specs, timeout_secs=0.0)
  assert not any(estimator.traces.values())
  assert not (tmp_path / "run").exists()


@pytest.mark.long  # tests/trainer/outputs/test_exporters.py has two folders in the gate
def test_eval_specs_may_export_to_different_folders(tmp_path):
  run(tmp_path, *names_twice(("a", "x"), ("b", "y")), max_steps=10)
  assert sorted(path.name for path in (tmp_path / "export").iterdir()) == ["x", "y"]


# ------------------------------------------------------------- data that end


def run_to_the_end_of_the_data(folder, log, kill=None, every=None, max_steps=None):
  estimator = programs.estimator(folder, save_checkpoints_steps=every, save_checkpoints_secs=None)
  final = KilledAt(log, "final", kill if kill is None or kill > 1 else None)
  evaluated = spec(log, kill=1 if kill == 1 else None, exporters=[final])
  train_and_evaluate(estimator, TrainSpec(programs.batches(5), max_steps=max_steps), evaluated)
  return estimator.latest_step()


@pytest.mark.parametrize(
  ("every", "max_steps"), long.except_for([(100, None)], itertools.product([100, 5], [None, 50]))
)
def test_a_kill_in_the_last_evaluation_trains_no_second_epoch(
  every, max_steps, tmp_path, monkeypatch
):
  monkeypatch.setattr(train_evaluate, "_completed", set())
  log = []
  with pytest.raises(Killed):
    run_to_the_end_of_the_data(tmp_path, log, 1, every, max_steps)
  assert log == [(None, 5)]
  assert run_to_the_end_of_the_data(tmp_path, log, None, every, max_steps) == 5
  assert log[1:] == [(None, 5), ("export", 5), ("export", 5)]  # the second one as the final one
  # The same call in the same process is made on purpose: it trains once more.
  assert run_to_the_end_of_the_data(tmp_path, log, None, every, max_steps) == 10


@pytest.mark.long  # the kill in the last evaluation, and in an evaluator's export, are in the gate
def test_a_kill_in_the_last_export_trains_no_second_epoch(tmp_path, monkeypatch):
  monkeypatch.setattr(train_evaluate, "_completed", set())
  log = []
  with pytest.raises(Killed):
    run_to_the_end_of_the_data(tmp_path, log, kill=2)
  for _ in range(2):  # the same command, twice
    monkeypatch.setattr(train_evaluate, "_completed", set())
    assert run_to_the_end_of_the_data(tmp_path, log) == 5
