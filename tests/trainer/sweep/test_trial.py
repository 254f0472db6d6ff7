"""What a trial's evaluations and its end mean."""

import pytest

from tests.trainer.sweep import programs
from trainer.reporting import metrics_file
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
    trial_lib.MetricMissingError, match=f"It reports: {'loss' if values else 'nothing'}"
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


def test_a_trial_that_came_to_its_end_before_it_could_be_ended_is_complete(tmp_path):
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
