"""Reports of a training: their steps, their means, and a return to a checkpoint."""

import pytest

from trainer import run_config
from trainer.loop import outer_loop, training_report
from trainer.reporting import metrics_file


def make(folder, start=0, final_step=None, writes=True, **config):
  settings = {"log_step_count_steps": 10**6, "save_summary_steps": 100, **config}
  return training_report.TrainingReport(
    str(folder), run_config.RunConfig(show_progress=False, **settings), start, final_step, 8, writes
  )


def loop(step, steps=10, loss=1.0, scalars=None):
  return outer_loop.LoopResult(step, steps, 2.0, loss, -1, 0.5, scalars or {}, False)


def run(report, *steps, loss=1.0):
  for step in steps:
    report.add(loop(step, loss=loss))


def reported(folder):
  return {line["step"]: line for line in metrics_file.read(str(folder))}


@pytest.mark.parametrize(
  ("start", "cadence", "steps"),
  [(0, 100, [10, 20, 50, 100, 200]), (30, 100, [50, 100, 200]), (0, 40, [40, 80, 120, 160, 200])],
)
def test_a_rare_cadence_has_first_reports(tmp_path, start, cadence, steps):
  report = make(tmp_path, start, save_summary_steps=cadence)
  assert report.next_step(start) == steps[0]
  run(report, *range(start + 10, 210, 10))
  assert list(reported(tmp_path)) == steps


def test_a_report_has_the_mean_loss_and_the_newest_scalars(tmp_path):
  report = make(tmp_path)
  report.add(loop(2, 2, loss=4.0, scalars={"rate": 0.1}))
  report.add(loop(10, 8, loss=1.0, scalars={"rate": 0.2}))
  [line] = metrics_file.read(str(tmp_path))
  found = {name: line[name] for name in ("loss", "rate", "examples_per_second")}
  assert found == {"loss": 1.6, "rate": 0.2, "examples_per_second": 20.0}


def test_the_last_step_and_a_flush_report_the_rest_once(tmp_path):
  report = make(tmp_path, final_step=70)
  run(report, 60, 70)
  report.flush(70)
  assert list(reported(tmp_path)) == [60, 70]
  report.add(loop(75, 5))
  report.flush(75)
  report.flush(76)
  assert list(reported(tmp_path)) == [60, 70, 75]


def test_repeated_steps_are_reported_without_those_before(tmp_path):
  report = make(tmp_path)
  run(report, *range(10, 260, 10), loss=50.0)
  report.went_back_to(0)
  run(report, 15, *range(20, 110, 10), loss=2.0)
  found = {step: line["loss"] for step, line in reported(tmp_path).items()}
  assert found == dict.fromkeys([15, 20, 50, 100], 2.0)


def test_a_worker_that_is_not_the_chief_writes_nothing(tmp_path):
  report = make(tmp_path, writes=False)
  run(report, 10, 100)
  report.went_back_to(0)
  report.flush(100)
  assert list(tmp_path.iterdir()) == []
