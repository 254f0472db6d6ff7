"""What a trial's evaluations and its end mean."""

import pytest

from tests.trainer.sweep import programs
from trainer.reporting import metrics_file, trial_file
from trainer.sweep import study
from trainer.sweep import trial as trial_lib


def run_of(tmp_path, text=programs.SPACE):
  """A Run of a first trial, prepared."""
  settings = programs.settings(tmp_path, text)
  found = study.Study.open(study.url_for(tmp_path), "s", settings, settings.definition())
  found.make_trials(1)
  run = trial_lib.Run(found.claim(1), settings, str(tmp_path), ["--gin_file=a.gin"])
  run.prepare()
  return run


def report(run, step, kind="eval", **values):
  metrics_file.append(run.model_dir, kind, step, values)


def reported(run):
  return run.trial.storage.get_trial(run.trial._trial_id).intermediate_values


def test_evaluations_are_reported_once_and_the_last_one_counts(tmp_path):
  run = run_of(tmp_path)
  assert not run.follow()
  report(run, 10, "train", loss=3.0)
  report(run, 10, accuracy=0.2)
  run.follow()
  metrics_file.begin(run.model_dir, 0)  # it was interrupted and began again
  report(run, 10, accuracy=0.2)
  report(run, 20, accuracy=0.4)
  run.follow()
  run.follow()
  assert reported(run) == {10: 0.2, 20: 0.4}
  assert run.outcome(0) == ("complete", [0.4])
  assert run.trial.user_attrs["steps"] == 20


def test_a_clock_that_is_set_does_not_change_how_long_it_took(tmp_path, monkeypatch):
  run = run_of(tmp_path)
  report(run, 10, accuracy=0.4)
  monkeypatch.setattr(trial_lib.time, "time", lambda: 0.0)
  run.outcome(0)
  assert 0 <= run.trial.user_attrs["seconds"] < 3600


def test_the_metric_of_an_evaluation_with_a_name(tmp_path):
  run = run_of(tmp_path, programs.SPACE.replace("'accuracy'", "'hard/accuracy'"))
  report(run, 10, accuracy=0.9)
  run.follow()  # the other evaluation of this step may come yet
  report(run, 10, "eval_hard", accuracy=0.3)
  run.follow()
  assert reported(run) == {10: 0.3}


def test_several_metrics(tmp_path):
  text = programs.SPACE.replace("'accuracy'", "['accuracy', 'loss']").replace(
    "'max'", "['max', 'min']"
  )
  run = run_of(tmp_path, text)
  report(run, 10, accuracy=0.9, loss=0.5)
  assert not run.follow()
  assert run.outcome(0) == ("complete", [0.9, 0.5])


def test_a_metric_that_is_no_number(tmp_path):
  run = run_of(tmp_path)
  report(run, 10, accuracy=float("nan"))
  run.follow()
  assert run.outcome(0) == ("fail", None)
  assert "NaN" in run.trial.user_attrs["error"]


@pytest.mark.parametrize("values", [{}, {"loss": 1.0}])
def test_a_trial_that_ends_without_the_metric(tmp_path, values):
  run = run_of(tmp_path)
  if values:
    report(run, 10, **values)
  with pytest.raises(
    trial_lib.MetricMissingError, match=f"It reports {'loss' if values else 'nothing'}"
  ):
    run.outcome(0)


@pytest.mark.parametrize(
  ("code", "pruned", "state"),
  [
    (75, False, "interrupted"),
    (75, True, "pruned"),
    (-15, True, "pruned"),
    (1, True, "fail"),
    (-9, False, "fail"),
    (1, False, "fail"),
  ],
)
def test_exit_codes(tmp_path, code, pruned, state):
  run = run_of(tmp_path)
  run.pruned = pruned
  assert run.outcome(code) == (state, None)


def test_trial_that_finished_before_pruning_is_complete(tmp_path):
  run = run_of(tmp_path)
  run.pruned = True
  report(run, 10, accuracy=0.9)
  assert run.outcome(0) == ("complete", [0.9])


def test_a_failure_keeps_the_last_lines(tmp_path):
  run = run_of(tmp_path)
  with open(run.log, "w") as log:
    log.write("".join(f"line {number}\n" for number in range(100)))
  run.outcome(2)
  error = run.trial.user_attrs["error"]
  assert "exit code 2" in error
  assert "line 99" in error
  assert "line 79" not in error


def test_the_metric_that_has_a_slash_in_its_name():
  lines = [{"step": 1, "kind": "eval", "top/5": 0.5}]
  assert trial_lib._kind_and_name("top/5", lines) == ("eval", "top/5")
  assert trial_lib._kind_and_name("top/5", []) == ("eval_top", "5")


SEEDS = programs.SPACE + "sweep.seeds = [3, 1, 2]\n"


def test_each_seed_is_a_run_and_the_mean_counts(tmp_path):
  first = run_of(tmp_path, SEEDS)
  assert "--seed=3" in first.arguments
  assert first.model_dir.endswith("/trials/0/seed_3")
  runs = [first]
  for value in (0.5, 0.6, 0.7):
    run = runs[-1]
    report(run, 10, accuracy=value)
    run.follow()
    state, values = run.outcome(0)
    assert (state == "again") == (value < 0.7)
    runs.append(trial_lib.Run(first.trial, first.settings, str(tmp_path), []))
    if state == "again":
      runs[-1].prepare()
  assert values == [pytest.approx(0.6)]
  assert [run.seed for run in runs] == [3, 1, 2, 2]
  assert {run.trial.params["experiment.x"] for run in runs} == {first.trial.params["experiment.x"]}
  # By hand: the standard error is 0.1 / sqrt(3), and Student's t with two degrees of freedom 4.3027.
  assert first.trial.user_attrs["intervals"]["accuracy"] == pytest.approx(
    [0.35159, 0.84841], abs=1e-5
  )
  assert reported(first) == {10: 0.5}  # the pruner judges the first seed


def test_a_seed_that_fails_fails_the_trial(tmp_path):
  first = run_of(tmp_path, SEEDS)
  report(first, 10, accuracy=0.5)
  assert first.outcome(0) == ("again", None)
  second = trial_lib.Run(first.trial, first.settings, str(tmp_path), [])
  second.prepare()
  assert second.outcome(3) == ("fail", None)


@pytest.mark.parametrize(("loss", "violations"), [(0.4, [-0.1, 0.0]), (0.7, [0.2, 0.0])])
def test_a_trial_is_told_how_far_it_keeps_the_constraints(tmp_path, loss, violations):
  run = run_of(tmp_path, programs.SPACE + "sweep.constraints = ['loss <= 0.5', 'recall >= 0.9']\n")
  report(run, 10, accuracy=0.5, loss=loss, recall=0.9)
  assert run.outcome(0) == ("complete", [0.5])
  found = run.trial.user_attrs["constraints"]
  assert list(found) == ["loss <= 0.5", "recall >= 0.9"]
  assert list(found.values()) == pytest.approx(violations)
  assert run.trial.user_attrs["constrained"] == {"loss": loss, "recall": 0.9}


def test_a_constraint_of_a_metric_that_is_not_there(tmp_path):
  run = run_of(tmp_path, programs.SPACE + "sweep.constraints = ['recall >= 0.9']\n")
  report(run, 10, accuracy=0.5)
  with pytest.raises(trial_lib.MetricMissingError, match="sweep.constraints has 'recall >= 0.9'"):
    run.outcome(0)


def test_a_run_knows_its_trial(tmp_path):
  run = run_of(tmp_path, SEEDS)
  found = trial_file.read(run.model_dir)
  assert (found.sweep, found.number, found.seed, found.title) == ("s", 0, 3, "trial 0, seed 3")
  assert (found.folder, found.metrics, found.modes) == (str(tmp_path), ["accuracy"], ["max"])
  assert float(found.bindings["experiment.x"]) == run.trial.params["experiment.x"]
  assert found.id == run.trial.study.user_attrs["octet_id"] != ""
