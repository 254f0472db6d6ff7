"""Octet's lines are shown to whoever runs a Python program, and to nobody else."""

import io
import logging
import pathlib

import pytest
from absl import logging as absl_logging

import trainer
from trainer.reporting import console

OCTET = str(pathlib.Path(trainer.__file__).parent / "loop" / "training.py")


@pytest.fixture
def say(monkeypatch):
  """A logger's state as of a program that has set nothing; gives a function that logs a line."""
  logger = absl_logging.get_absl_logger()
  monkeypatch.setattr(logger, "level", logging.WARNING)
  logger.manager._clear_cache()

  def log(text, path=OCTET, level=logging.INFO):
    if logger.isEnabledFor(level):
      logger.handle(logger.makeRecord("absl", level, path, 1, text, (), None))

  yield log
  logger.manager._clear_cache()


def test_lines_are_shown_while_a_call_goes_on(say, capsys):
  with console.lines_shown(True):
    say("inside")
    with console.lines_shown(True):
      pass
    say("still inside")
    say("of another library", path="/lib/other.py")
  say("after")
  lines = capsys.readouterr().err.splitlines()
  assert [line[9:] for line in lines] == ["inside", "still inside"]
  assert not console.are_lines_shown_here()


@pytest.mark.parametrize("wanted", [False, None])
def test_nothing_is_shown_by_wish_or_where_nobody_looks(say, capsys, wanted):
  with console.lines_shown(wanted):
    say("inside")
  assert capsys.readouterr().err == ""


def test_who_looks_is_shown_the_lines_by_default(say, capsys, monkeypatch):
  monkeypatch.setattr(console, "someone_looks", lambda: True)
  with console.lines_shown(None):
    say("inside")
  assert "inside" in capsys.readouterr().err


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_is_looked_at_and_a_file_is_not(monkeypatch, is_terminal):
  monkeypatch.setenv("FORCE_COLOR", "1")  # by which rich takes any output for a terminal
  file = io.StringIO()
  file.isatty = lambda: is_terminal
  monkeypatch.setattr("sys.stderr", file)
  assert console.someone_looks() == is_terminal


def test_a_program_with_a_verbosity_of_its_own_stays_as_it_is(say, caplog, capsys):
  with caplog.at_level("INFO", logger="absl"), console.lines_shown(True):
    assert not console.are_lines_shown_here()
    say("inside")
  assert caplog.messages == ["inside"]
  assert capsys.readouterr().err == ""


def test_warnings_go_the_way_of_the_program(say, caplog, capsys):
  with console.lines_shown(True):
    say("careful", level=logging.WARNING)
  assert caplog.messages == ["careful"]
  assert capsys.readouterr().err == ""
