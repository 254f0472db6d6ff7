"""The line of a report, and the bar of a terminal."""

import io

import pytest
import rich.console

from trainer.reporting import progress

REPORT = dict(loss=0.123456789, steps_per_second=50.0, examples_per_second=1600.0, input_wait=0.03)


def test_a_line_has_all_that_is_known():
  line = progress.line(100, 3700, dict(REPORT, learning_rate=0.001))
  assert (
    line
    == "step 100/3700  loss 0.12346  lr 0.001  1,600 examples/s  20 ms/step  input wait 3%  ETA "
    "0:01:12"
  )


def test_a_line_without_an_end_or_a_learning_rate():
  assert (
    progress.line(7, None, REPORT)
    == "step 7  loss 0.12346  1,600 examples/s  20 ms/step  input wait 3%"
  )


@pytest.mark.parametrize("final_step", [10, None])
def test_there_is_a_bar_on_a_terminal_only(final_step):
  for terminal in (True, False):
    file = io.StringIO()
    bar = progress.Progress(
      0, final_step, rich.console.Console(file=file, force_terminal=terminal, width=80)
    )
    bar.move(5)
    bar.close()
    assert ("train" in file.getvalue()) == terminal
    assert ("step 5" in file.getvalue()) == terminal


def test_a_report_is_logged(caplog):
  with caplog.at_level("INFO", logger="absl"):
    progress.Progress(0, 200, rich.console.Console(file=io.StringIO())).report(100, REPORT)
  assert "step 100/200  loss 0.12346" in caplog.text
