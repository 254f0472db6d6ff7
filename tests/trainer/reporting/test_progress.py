"""The line of a report, and the bar of a terminal."""

import io

import pytest
import rich.console

from trainer.reporting import progress

REPORT = dict(loss=0.123456789, steps_per_second=50.0, examples_per_second=1600.0, input_wait=0.03)


def no_terminal():
  return rich.console.Console(file=io.StringIO())


def terminal(file):
  return rich.console.Console(file=file, force_terminal=True, width=120)


def test_a_line_has_all_that_is_known():
  line = str(progress.line(100, 3700, dict(REPORT, learning_rate=0.001)))
  assert (
    line
    == "step 100/3700  loss 0.12346  lr 0.001  1,600 examples/s  20 ms/step  input wait 3%  ETA "
    "0:01:12"
  )


def test_a_line_without_an_end_or_a_learning_rate():
  assert (
    str(progress.line(7, None, REPORT))
    == "step 7  loss 0.12346  1,600 examples/s  20 ms/step  input wait 3%"
  )


@pytest.mark.parametrize("final_step", [10, None])
def test_there_is_a_bar_on_a_terminal_only(final_step):
  for is_terminal in (True, False):
    file = io.StringIO()
    bar = progress.Progress(
      0, final_step, console=rich.console.Console(file=file, force_terminal=is_terminal, width=80)
    )
    bar.report(5, REPORT)
    bar.close()
    assert ("train" in file.getvalue()) == is_terminal
    assert ("step 5" in file.getvalue()) == is_terminal


def test_a_report_is_logged(caplog):
  with caplog.at_level("INFO", logger="absl"):
    progress.Progress(0, 200, console=no_terminal()).report(100, REPORT)
  assert "step 100/200  loss 0.12346" in caplog.text


def test_there_is_no_bar_where_none_is_wanted():
  file = io.StringIO()
  bar = progress.Progress(0, 10, show=False, console=terminal(file))
  bar.move(5, 50.0)
  bar.close()
  assert file.getvalue() == ""


@pytest.fixture
def for_a_person(monkeypatch, caplog):
  """Lines are shown to a person alone; gives a function that returns those so far."""
  monkeypatch.setattr(progress.console_lib, "are_lines_shown_here", lambda: True)
  with caplog.at_level("INFO", logger="absl"):
    yield lambda: [message.split("/")[0] for message in caplog.messages]


def test_reports_are_in_the_bar_and_the_last_one_stays(for_a_person):
  file = io.StringIO()
  bar = progress.Progress(0, 300, console=terminal(file))
  for step in (100, 200, 300):
    bar.report(step, REPORT)
  bar.close()
  assert "loss 0.12346  1,600 examples/s" in file.getvalue()
  assert for_a_person() == ["step 300"]


def test_without_a_bar_a_line_comes_every_ten_seconds(for_a_person):
  seconds = iter([0, 4, 9, 11, 11, 12, 13])
  lines = progress.Progress(0, 900, console=no_terminal(), clock=lambda: next(seconds))
  for step in (100, 200, 300, 400):
    lines.report(step, REPORT)
  assert for_a_person() == ["step 300"]
  lines.close()
  assert for_a_person() == ["step 300", "step 400"]


def test_an_eta_of_more_than_a_hundred_years():
  report = dict(loss=1.0, examples_per_second=8.0, steps_per_second=1.0, input_wait=0.0)
  assert "ETA over 100 years" in str(progress.line(1, 2**62 - 1, report))
